"""Jobs that tests run: the MPI and the TensorFlow job that people start with, and small ones."""

from typing import Any, TypeAlias

__all__ = ["command", "job", "mpi_job", "task", "tensorflow_job"]

Manifest: TypeAlias = dict[str, Any]

_EVICTED_RESTARTS: Manifest = {"event": "PodEvicted", "action": "RestartJob"}
_DONE_COMPLETES: Manifest = {"event": "TaskCompleted", "action": "CompleteJob"}


def task(
    name: str,
    replicas: int,
    *,
    command: str = "sleep 3",
    cpu: str = "100m",
    policies: list[Manifest] | None = None,
    **fields: Any,
) -> Manifest:
    """A task of one container that asks for as much as it may use."""
    container = {
        "name": name,
        "image": "busybox",
        "command": ["sh", "-c", command],
        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}},
    }
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    made = {"name": name, "replicas": replicas, "template": template, **fields}
    return {**made, "policies": policies} if policies else made


def job(name: str, *tasks: Manifest, labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A job as admission would leave it: the defaults of the webhook are written out."""
    total = sum(one["replicas"] for one in tasks)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "minAvailable": total,
            "maxRetry": 3,
            "queue": "default",
            "schedulerName": "volcano",
            "tasks": list(tasks),
            **spec,
        },
    }


def mpi_job(name: str = "lm-mpi-job") -> Manifest:
    """A master that completes the job, and three workers that wait for it with sshd."""
    return job(
        name,
        task("mpimaster", 1, cpu="500m", command="mpiexec", policies=[_DONE_COMPLETES]),
        task("mpiworker", 3, cpu="1000m", command="/usr/sbin/sshd -D"),
        labels={"volcano.sh/job-type": "MPI"},
        plugins={"ssh": [], "svc": []},
        policies=[_EVICTED_RESTARTS],
    )


def tensorflow_job(name: str = "tensorflow-benchmark") -> Manifest:
    """A parameter server that never ends, and two workers that complete the job."""
    return job(
        name,
        task("ps", 1, cpu="1000m", command="ps"),
        task("worker", 2, cpu="2000m", command="train", policies=[_DONE_COMPLETES]),
        labels={"volcano.sh/job-type": "Tensorflow"},
        plugins={"env": [], "svc": []},
        policies=[_EVICTED_RESTARTS],
    )


def command(name: str, action: str, target: Manifest) -> Manifest:
    """A Command to a job, as `vcctl` makes it."""
    metadata = target["metadata"]
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name, "namespace": metadata.get("namespace", "default")},
        "action": action,
        "target": {
            "apiVersion": target["apiVersion"],
            "kind": target["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        },
    }
