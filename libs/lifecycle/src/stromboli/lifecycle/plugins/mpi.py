"""`mpi`: an open ssh port everywhere, and the workers' names where mpiexec runs."""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job
from stromboli.lifecycle.arguments import read_arguments
from stromboli.lifecycle.plugins.drafts import (
    NeededObject,
    NeededSecret,
    PodDraft,
    addresses_of,
    port_of,
    task_of,
)

__all__ = ["MpiPlugin"]

_PORT_NAME: Final = "mpijob-port"
_DEFAULTS: Final = {"master": "master", "worker": "worker", "port": "22"}


class MpiPlugin:
    name = "mpi"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS)
        self._master, self._worker = values["master"], values["worker"]
        self._port = port_of(values["port"], _DEFAULTS["port"])

    def dress(self, job: Job, pod: PodDraft) -> None:
        is_master = pod.task.name == self._master
        workers = task_of(job, self._worker)
        if is_master and workers is None:
            return  # nobody to tell it about
        for container in pod.all_containers:
            pod.open_port(container, _PORT_NAME, self._port)
            if is_master and workers is not None:
                hosts = ",".join(addresses_of(job, workers))
                pod.add_env(container, {"name": "MPI_HOST", "value": hosts})

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:  # noqa: ARG002 (every plugin gets it)
        return []
