"""`ray`: one task becomes the head of a Ray cluster, another its workers.

The command of the named container is replaced: it starts Ray and stays with it. A Service
gives the head a name for those who submit work from outside of the job.
"""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.wellknown import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from stromboli.lifecycle.arguments import read_arguments
from stromboli.lifecycle.plugins.drafts import (
    NeededObject,
    NeededSecret,
    PodDraft,
    addresses_of,
    port_of,
    task_of,
)

__all__ = ["RayPlugin"]

_DEFAULTS: Final = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": "6379",
    "dashboardPort": "8265",
    "clientPort": "10001",
}
_PORTS: Final = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
"""The name of each port, and the argument that sets it."""


class RayPlugin:
    name = "ray"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS)
        self._head, self._head_container = values["head"], values["headContainer"]
        self._worker, self._worker_container = values["worker"], values["workerContainer"]
        self._ports = {
            name: port_of(values[flag], _DEFAULTS[flag]) for name, flag in _PORTS.items()
        }

    def lacks(self, job: Job) -> str:
        """What the job needs for this plugin and does not have."""
        if task_of(job, self._head) is None:
            return f"job {job.metadata.name} doesn't have head task {self._head}"
        return ""

    def dress(self, job: Job, pod: PodDraft) -> None:
        head = task_of(job, self._head)
        if head is None:
            return
        if pod.task.name == self._head:
            for container in _named(pod, self._head_container):
                self._make_head(pod, container)
        elif pod.task.name == self._worker:
            for container in _named(pod, self._worker_container):
                address = f"{self._address(job, head)}:{self._ports['gcs']}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:
        service = {
            "selector": {
                JOB_NAME: job.metadata.name,
                JOB_NAMESPACE: job.metadata.namespace,
                TASK_SPEC: self._head,
            },
            "ports": [
                {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
                for name, port in self._ports.items()
            ],
        }
        return [
            NeededObject(
                kind="service", name=f"{job.metadata.name}-head-svc", body={"spec": service}
            )
        ]

    def _make_head(self, pod: PodDraft, container: OpaqueObject) -> None:
        for name, port in self._ports.items():
            pod.open_port(container, name, port)
        start = (
            "ray start --head --block --dashboard-host=0.0.0.0"
            f" --port={self._ports['gcs']} --dashboard-port={self._ports['dashboard']}"
            f" --ray-client-server-port={self._ports['client-server']}"
        )
        container["command"] = ["sh", "-c", start]

    def _address(self, job: Job, head: TaskSpec) -> str:
        """Of a head with no replicas, the one that it would have."""
        found = addresses_of(job, head)
        return found[0] if found else f"{job.metadata.name}-{head.name}-0.{job.metadata.name}"


def _named(pod: PodDraft, name: str) -> list[OpaqueObject]:
    return [container for container in pod.containers if container.get("name") == name]
