"""Room that others were told to leave belongs to the pod that they left it for.

Volcano forgets for whom it evicted, but for the node's name on the pod: in the next cycle
anybody may take the room, and somebody else is evicted. With this plugin (ours, off by default)
jobs with such pods have the first turns, before all queues, until the pods are bound.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.session import Session

NAME: Final = "ownership"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Ownership:
    """Remembers whose the room is."""

    name = NAME

    def __init__(self) -> None:
        self._nominated: Mapping[str, str] = {}

    def opened(self, session: Session) -> None:
        self._nominated = session.nominated

    def comes_first(self, contender: Contender) -> bool:
        return bool(self._nominated) and any(
            task.uid in self._nominated for task in contender.waiting
        )


def build(arguments: Mapping[str, Any]) -> Ownership:
    read_arguments(NAME, Args, arguments)
    return Ownership()
