"""Who an object belongs to, up to the root that its intents are ordered by.

Only controller references are followed: other owners keep an object alive but do not act for
it. References are claims by the object itself, so walking up is bounded and a cycle ends it.
"""

from collections.abc import Callable
from typing import Final

from stromboli.api.meta import KubeObject, ObjectMeta, OwnerReference

__all__ = ["Resolve", "controller_of", "is_controlled_by", "root_owner"]

Resolve = Callable[[str, OwnerReference], ObjectMeta | None]
"""Finds the metadata of an owner, given the namespace it is referred to from."""

_MAX_DEPTH: Final = 16


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The one owner that acts for this object, if it has one."""
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


def is_controlled_by(metadata: ObjectMeta, owner: KubeObject) -> bool:
    """Whether `owner` is the controller, by uid: a recreated namesake is someone else."""
    controller = controller_of(metadata)
    return controller is not None and controller.uid == owner.metadata.uid


def root_owner(metadata: ObjectMeta, resolve: Resolve) -> OwnerReference | None:
    """The topmost controller reference, or None for an object without one.

    An owner that `resolve` does not know, or that has another uid by now, ends the walk.
    """
    root: OwnerReference | None = None
    seen = {metadata.uid}
    current: ObjectMeta | None = metadata
    while current is not None and len(seen) <= _MAX_DEPTH:
        controller = controller_of(current)
        if controller is None or controller.uid in seen:
            break
        root = controller
        seen.add(controller.uid)
        found = resolve(metadata.namespace, controller)
        current = found if found is not None and found.uid == controller.uid else None
    return root
