"""`env`: every container learns its pod's index within the task."""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job
from stromboli.lifecycle.plugins.drafts import NeededObject, NeededSecret, PodDraft

__all__ = ["EnvPlugin"]

_VARIABLES: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
"""The first is from the time when Volcano was called kube-batch's "vk"; jobs still use it."""


class EnvPlugin:
    name = "env"

    def __init__(self, arguments: Sequence[str]) -> None:
        """It has no arguments."""

    def dress(self, job: Job, pod: PodDraft) -> None:  # noqa: ARG002 (every plugin gets it)
        for container in pod.all_containers:
            for variable in _VARIABLES:
                pod.add_env(container, {"name": variable, "value": str(pod.index)})

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:  # noqa: ARG002 (as above)
        return []
