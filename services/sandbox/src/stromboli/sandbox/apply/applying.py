"""One apply: a manager says what it wants to be so, and gets it unless others disagree.

Fields it wanted before and no longer mentions are taken out, unless somebody else wants them too.
A field that another manager set to another value is a conflict; with `force` it changes hands.
"""

from dataclasses import replace

from stromboli.sandbox import statuses
from stromboli.sandbox.apply.fieldsets import SELF, FieldSet, Path, fields_of, readable
from stromboli.sandbox.apply.managers import APPLIED, Manager, listed, managers_of
from stromboli.sandbox.apply.merging import merged, value_at, without
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.shapes.shape import Shape

__all__ = ["applied", "first_applied"]


def first_applied(wish: Document, shape: Shape, *, by: Manager) -> list[Document]:
    """The entries of an object that an apply creates."""
    return listed([replace(by, fields=fields_of(wish, shape))])


def applied(
    live: Document, wish: Document, shape: Shape, *, by: Manager, force: bool
) -> tuple[Document, list[Document]]:
    """The object as it will be, and who owns what of it; refuses with all conflicts."""
    wanted = fields_of(wish, shape)
    managers = managers_of(live, shape)
    mine = next((manager for manager in managers if manager.is_of(by)), None)
    others = [manager for manager in managers if not manager.is_of(by)]
    disputed = frozenset(
        path
        for path in wanted
        if (asked := value_at(wish, path, shape)) not in ({}, [])
        and value_at(live, path, shape) != asked
        and any(path in manager.fields for manager in others)
    )
    if disputed and not force:
        raise _conflict(disputed, others)
    others = [replace(manager, fields=manager.fields - disputed) for manager in others]
    result: Document = merged(live, wish, shape)
    if mine is not None:
        result = without(result, _given_up(mine.fields - wanted, others), shape)
    time = by.time
    if mine is not None and mine.fields == wanted:
        time = mine.time
    return result, listed([*others, replace(by, fields=wanted, time=time)])


def _given_up(dropped: FieldSet, others: list[Manager]) -> list[Path]:
    """What nobody wants any more; an item stays as long as others want something in it."""
    owned = frozenset(path for manager in others for path in manager.fields)
    return [path for path in dropped if not any(_is_within(one, path) for one in owned)]


def _is_within(inner: Path, outer: Path) -> bool:
    """True if one field is the other, or a part of it."""
    place = outer[:-1] if outer[-1] == SELF else outer
    return inner[: len(place)] == place


def _conflict(disputed: FieldSet, others: list[Manager]) -> Exception:
    causes: list[Cause] = []
    told: dict[str, list[str]] = {}
    for manager in sorted(others, key=_told):
        who = _told(manager)
        for path in sorted(disputed & manager.fields):
            told.setdefault(who, []).append(readable(path))
            causes.append(Cause("FieldManagerConflict", f"conflict with {who}", readable(path)))
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    if len(causes) == 1:
        who, paths = next(iter(told.items()))
        listing = f"conflict with {who}: {paths[0]}"
    else:
        listing = "\n".join(
            f"conflicts with {who}:\n" + "\n".join(f"- {path}" for path in paths)
            for who, paths in told.items()
        )
    return statuses.apply_conflict(f"Apply failed with {count}: {listing}", causes)


def _told(manager: Manager) -> str:
    if manager.operation == APPLIED:
        return f'"{manager.name}"'
    part = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    return f'"{manager.name}"{part} using {manager.api_version}'
