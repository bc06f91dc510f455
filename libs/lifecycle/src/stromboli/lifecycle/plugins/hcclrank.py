"""`hcclrank`: the rank of a pod among those that talk over HCCL, as an annotation."""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job
from stromboli.lifecycle.arguments import read_arguments
from stromboli.lifecycle.plugins.drafts import NeededObject, NeededSecret, PodDraft, task_of

__all__ = ["HcclRankPlugin"]

_RANK: Final = "hccl/rankIndex"
_DEFAULTS: Final = {"master": "master", "worker": "worker"}


class HcclRankPlugin:
    name = "hcclrank"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS)
        self._master, self._worker = values["master"], values["worker"]

    def dress(self, job: Job, pod: PodDraft) -> None:
        annotations = pod.metadata["annotations"]
        rank = self._rank(job, pod)
        if rank and not annotations.get(_RANK):
            annotations[_RANK] = rank

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:  # noqa: ARG002 (every plugin gets it)
        return []

    def _rank(self, job: Job, pod: PodDraft) -> str:
        for container in pod.containers:
            given = pod.env_of(container, "RANK")
            if given:
                return given
        if pod.task.name == self._master:
            return str(pod.index)
        if pod.task.name == self._worker:
            masters = task_of(job, self._master)
            return str((masters.replicas if masters is not None else 0) + pod.index)
        return ""
