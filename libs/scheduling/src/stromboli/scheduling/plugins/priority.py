"""Jobs of a higher priority class come first."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.plugins.arguments import read_arguments

NAME: Final = "priority"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Priority:
    """Orders jobs by the value of their PodGroup's priority class."""

    name = NAME

    def job_order(self, contender: Contender) -> SortKey:
        return (-contender.job.priority,)


def build(arguments: Mapping[str, Any]) -> Priority:
    read_arguments(NAME, Args, arguments)
    return Priority()
