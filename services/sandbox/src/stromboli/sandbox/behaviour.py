"""What one kind does differently from the others, as functions to be filled in.

The verbs (create, update, delete …) are the same for all kinds and call these at fixed moments;
a kind fills in what it needs. Functions change the document they are given or report causes;
only `admit_*` may look at other objects, and only they refuse by raising.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, same_document
from stromboli.sandbox.store import Store

__all__ = ["Behaviour"]


def _leave(_document: Document) -> None:
    pass


def _leave_both(_new: Document, _old: Document) -> None:
    pass


def _no_causes(_document: Document) -> list[Cause]:
    return []


def _no_update_causes(_new: Document, _old: Document) -> list[Cause]:
    return []


def _admit(_document: Document, _store: Store) -> None:
    pass


def _spec_changed(new: Document, old: Document) -> bool:
    return not same_document({"spec": new.get("spec")}, {"spec": old.get("spec")})


def _has_finalizers(document: Document) -> bool:
    return bool(document["metadata"].get("finalizers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    shape: type[msgspec.Struct] | None = None
    """The JSON types of a built-in kind's fields; a document that does not fit is a 400."""
    default: Callable[[Document], None] = _leave
    """Fill in what was left out; also prunes custom resources. Runs on every write."""
    prepare_create: Callable[[Document], None] = _leave
    prepare_update: Callable[[Document, Document], None] = _leave_both
    prepare_status: Callable[[Document, Document], None] = _leave_both
    validate: Callable[[Document], list[Cause]] = _no_causes
    """Rules for the whole object; runs on create and on update."""
    validate_update: Callable[[Document, Document], list[Cause]] = _no_update_causes
    """Rules about what may change between two versions of the object."""
    admit_create: Callable[[Document, Store], None] = _admit
    admit_delete: Callable[[Document, Store], None] = _admit
    next_generation: Callable[[Document, Document], bool] = _spec_changed
    """True if the change asks for something new, so that metadata.generation moves on."""
    grace_seconds: Callable[[Document, int | None], int] | None = None
    """How long the object may take to die, given what was asked; most kinds die at once."""
    mark_deleted: Callable[[Document], None] = _leave
    """What else changes when the deletion timestamp is set."""
    is_held: Callable[[Document], bool] = _has_finalizers
    """True while a deleted object has to stay, until its finalizers are gone."""
