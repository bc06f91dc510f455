"""What a kubelet writes into a pod's status at each step of its life. Pure."""

from typing import Any

from stromboli.api.core.pod import Pod
from stromboli.sandbox.kubelets.containers import Ended

__all__ = ["ended", "pausing", "refused", "running"]


def running(
    pod: Pod, *, now: str, restarts: int, pod_ip: str, last: Ended | None = None
) -> dict[str, Any]:
    state = {"running": {"startedAt": now}}
    status: dict[str, Any] = {
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": pod.status.start_time or now,
        "conditions": _conditions(pod, now, ready=True),
        "containerStatuses": _containers(pod, state, restarts=restarts, ready=True, last=last),
    }
    return {"status": status}


def pausing(pod: Pod, *, now: str, restarts: int, last: Ended) -> dict[str, Any]:
    """It ended and will be started again in a moment."""
    waiting = {
        "reason": "CrashLoopBackOff",
        "message": f"back-off restarting failed container in pod {pod.metadata.name}",
    }
    states = _containers(pod, {"waiting": waiting}, restarts=restarts, ready=False, last=last)
    conditions = _conditions(pod, now, ready=False)
    return {"status": {"conditions": conditions, "containerStatuses": states}}


def ended(
    pod: Pod, end: Ended, *, now: str, restarts: int, last: Ended | None = None
) -> dict[str, Any]:
    state = {"terminated": _terminated(end)}
    states = _containers(pod, state, restarts=restarts, ready=False, last=last)
    return {
        "status": {
            "phase": "Succeeded" if end.code == 0 else "Failed",
            "conditions": _conditions(pod, now, ready=False, done=end.code == 0),
            "containerStatuses": states,
        }
    }


def refused(*, reason: str, message: str) -> dict[str, Any]:
    """The kubelet could not start it at all."""
    return {"status": {"phase": "Failed", "reason": reason, "message": message}}


def _terminated(end: Ended) -> dict[str, Any]:
    return {
        "exitCode": end.code,
        "reason": end.reason or ("Completed" if end.code == 0 else "Error"),
        "startedAt": end.started or None,
        "finishedAt": end.finished or None,
    }


def _containers(
    pod: Pod, state: dict[str, Any], *, restarts: int, ready: bool, last: Ended | None
) -> list[dict[str, Any]]:
    last_state = {} if last is None else {"terminated": _terminated(last)}
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "containerID": f"stromboli://{pod.metadata.uid}-{container.name}-{restarts}",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "state": state,
            "lastState": last_state,
        }
        for container in pod.spec.containers
    ]


def _conditions(pod: Pod, now: str, *, ready: bool, done: bool = False) -> list[dict[str, str]]:
    scheduled = [c for c in pod.status.conditions if c.type == "PodScheduled"]
    since = str(scheduled[0].last_transition_time or now) if scheduled else now
    state = "True" if ready else "False"
    why: dict[str, str] = {}
    if not ready:
        why = {"reason": "PodCompleted"} if done else {"reason": "ContainersNotReady"}
    begun = str(pod.status.start_time or now)
    return [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
        {"type": "Initialized", "status": "True", "lastTransitionTime": begun},
        {"type": "ContainersReady", "status": state, "lastTransitionTime": now, **why},
        {"type": "Ready", "status": state, "lastTransitionTime": now, **why},
    ]
