"""Which intents of one key may be done, and asked for, side by side.

What one sender wants in a row of the same sort, each about another object, has no order: pods
are created together, or deleted together. A patch is never part of a run: a status explains the
deletions that follow it, and two patches may be about what one of them made possible.
"""

from stromboli.contracts.intents import (
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    PatchObject,
)
from stromboli.runtime.bus.ordering import Run

__all__ = ["run_of"]


def run_of(intent: AnyIntent) -> Run | None:
    """The run that this intent may be part of; None when it goes alone."""
    match intent:
        case CreateObject() | GenerateSecret():
            sort = "make"
        case DeleteObject():
            sort = "delete"
        case EvictPod():
            sort = "evict"
        case PatchObject() | BindGang() | Fence():
            return None
    return Run(sort, f"{intent.kind}/{intent.namespace}/{intent.name}")
