"""The actions there are, by Volcano's names."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stromboli.scheduling.actions import (
    allocate,
    backfill,
    enqueue,
    gang_eviction,
    preempt,
    reclaim,
    shuffle,
)
from stromboli.scheduling.decisions import Action
from stromboli.scheduling.errors import BadConfiguration

__all__ = ["ACTIONS", "action"]

ACTIONS: Final[Mapping[str, Callable[[Mapping[str, Any]], Action]]] = {
    "enqueue": enqueue.build,
    "allocate": allocate.build,
    "backfill": backfill.build,
    "preempt": preempt.build,
    "reclaim": reclaim.build,
    "shuffle": shuffle.build,
    "gangpreempt": gang_eviction.build_gangpreempt,
    "gangreclaim": gang_eviction.build_gangreclaim,
}


def action(name: str, arguments: Mapping[str, Any]) -> Action:
    """Raises BadConfiguration for an action or an argument that does not exist."""
    try:
        make = ACTIONS[name]
    except KeyError:
        raise BadConfiguration("the action", name, ACTIONS) from None
    return make(arguments)
