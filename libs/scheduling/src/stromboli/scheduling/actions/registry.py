"""The actions there are, by Volcano's names."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from stromboli.scheduling.actions import allocate, backfill, enqueue
from stromboli.scheduling.decisions import Decisions
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.session import Session

__all__ = ["ACTIONS", "Action", "action"]

Action: TypeAlias = Callable[[Session, Decisions], None]

ACTIONS: Final[Mapping[str, Action]] = {
    "enqueue": enqueue.run,
    "allocate": allocate.run,
    "backfill": backfill.run,
}


def action(name: str) -> Action:
    try:
        return ACTIONS[name]
    except KeyError:
        raise BadConfiguration("the action", name, ACTIONS) from None
