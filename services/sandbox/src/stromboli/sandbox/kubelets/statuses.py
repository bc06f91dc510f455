"""What a kubelet writes into a pod's status at each step of its life. Pure."""

from typing import Any

from stromboli.api.core.pod import Pod


def running(pod: Pod, *, now: str, restarts: int, pod_ip: str) -> dict[str, Any]:
    states = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": restarts,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod.spec.containers
    ]
    return {
        "status": {
            "phase": "Running",
            "startTime": now,
            "hostIP": "127.0.0.1",
            "podIP": pod_ip,
            "podIPs": [{"ip": pod_ip}],
            "conditions": _conditions(pod, now, ready=True),
            "containerStatuses": states,
        }
    }


def ended(
    pod: Pod, *, now: str, started: str, restarts: int, exit_code: int, reason: str = ""
) -> dict[str, Any]:
    terminated = {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": started,
        "finishedAt": now,
    }
    states = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": restarts,
            "state": {"terminated": terminated},
        }
        for container in pod.spec.containers
    ]
    return {
        "status": {
            "phase": "Succeeded" if exit_code == 0 else "Failed",
            "conditions": _conditions(pod, now, ready=False),
            "containerStatuses": states,
        }
    }


def refused(*, reason: str, message: str) -> dict[str, Any]:
    """The kubelet could not start it at all."""
    return {"status": {"phase": "Failed", "reason": reason, "message": message}}


def _conditions(pod: Pod, now: str, *, ready: bool) -> list[dict[str, str]]:
    scheduled = [c for c in pod.status.conditions if c.type == "PodScheduled"]
    since = str(scheduled[0].last_transition_time or now) if scheduled else now
    state = "True" if ready else "False"
    return [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
        {"type": "Initialized", "status": "True", "lastTransitionTime": now},
        {"type": "ContainersReady", "status": state, "lastTransitionTime": now},
        {"type": "Ready", "status": state, "lastTransitionTime": now},
    ]
