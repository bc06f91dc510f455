"""`pytorch`: the variables that torch.distributed starts from, and a worker that can wait.

The master is rank 0, worker i is rank i + 1.
"""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.numerals import as_number
from stromboli.lifecycle.arguments import is_true, read_arguments
from stromboli.lifecycle.plugins.drafts import (
    NeededObject,
    NeededSecret,
    PodDraft,
    addresses_of,
    port_of,
    task_of,
)

__all__ = ["PytorchPlugin"]

_PORT_NAME: Final = "pytorchjob-port"
_DEFAULTS: Final = {
    "master": "master",
    "worker": "worker",
    "port": "23456",
    "wait-master-enabled": "false",
    "wait-master-timeout": "300",
    "wait-master-image": "busybox:1.36.1",
}


class PytorchPlugin:
    name = "pytorch"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS, switches=("wait-master-enabled",))
        self._master, self._worker = values["master"], values["worker"]
        self._port = port_of(values["port"], _DEFAULTS["port"])
        self._waits = is_true(values["wait-master-enabled"])
        timeout = as_number(values["wait-master-timeout"])
        default = int(_DEFAULTS["wait-master-timeout"])
        self._timeout_s = default if timeout is None else timeout
        self._image = values["wait-master-image"]

    def dress(self, job: Job, pod: PodDraft) -> None:
        master = task_of(job, self._master)
        if master is None:
            return
        address = self._address(job, master)
        variables = {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(self._port),
            "WORLD_SIZE": str(self._size(job)),
        }
        if pod.task.name == self._master:
            variables["RANK"] = "0"
        elif pod.task.name == self._worker:
            variables["RANK"] = str(pod.index + 1)
        for container in pod.containers:
            pod.open_port(container, _PORT_NAME, self._port)
            for name, value in variables.items():
                pod.add_env(container, {"name": name, "value": value})
        if self._waits and pod.task.name == self._worker:
            pod.add_init_container(self._waiting_container(address))

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:  # noqa: ARG002 (every plugin gets it)
        return []

    def _address(self, job: Job, master: TaskSpec) -> str:
        """Of a master with no replicas, the one that it would have."""
        found = addresses_of(job, master)
        return found[0] if found else f"{job.metadata.name}-{master.name}-0.{job.metadata.name}"

    def _size(self, job: Job) -> int:
        roles = (self._master, self._worker)
        return sum(task.replicas for task in job.spec.tasks if task.name in roles)

    def _waiting_container(self, address: str) -> OpaqueObject:
        script = (
            f"left={self._timeout_s}\n"
            f"until nc -z -w 1 {address} {self._port} 2>/dev/null ||"
            f" (: </dev/tcp/{address}/{self._port}) 2>/dev/null; do\n"
            '  if [ "$left" -le 0 ]; then\n'
            f'    echo "the master {address}:{self._port} did not answer within'
            f' {self._timeout_s} seconds" >&2\n'
            "    exit 1\n"
            "  fi\n"
            "  left=$((left - 2))\n"
            "  sleep 2\n"
            "done\n"
        )
        return {
            "name": "wait-for-master",
            "image": self._image,
            "command": ["sh", "-c", script],
        }
