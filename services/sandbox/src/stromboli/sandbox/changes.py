"""What the store holds and what happens to it: an object at a revision, and a step of the log."""

from typing import TypeAlias

import msgspec

__all__ = ["Change", "Key", "Stored"]

Key: TypeAlias = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name; sorts as etcd's keys do."""


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One object as of one revision; it holds no cycles, so the garbage collector may skip it."""

    namespace: str
    name: str
    uid: str
    revision: int
    body: bytes
    labels: dict[str, str]
    fields: tuple[str, ...]
    """Values of the resource's selectable fields, in the order of its table row."""
    owners: tuple[str, ...]

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


class Change(msgspec.Struct, frozen=True, gc=False):
    """One step of the log: `old` is None for a create, `new` for a delete."""

    revision: int
    resource: str
    old: Stored | None
    new: Stored | None
