"""Do the views show a write of ours already? Then there is nothing to wait for.

The watch may be faster than the answer to the write itself, and what it brought may have made
no fact, because no field of the projection changed. A fact that is on its way is judged when
it stands, not before.
"""

from dataclasses import dataclass

from stromboli.gateway.placing import Places
from stromboli.gateway.published import Key, Published
from stromboli.gateway.settling import OwnWrites, Scope


@dataclass(slots=True)
class Visibility:
    """Notes the writes that are not visible yet."""

    published: Published
    places: Places
    own_writes: OwnWrites

    def wrote(self, scope: Scope, kind: str, key: Key, *, uid: str, resource_version: str) -> str:
        """A write was answered; without a resourceVersion it was the object's end.

        Returns the resourceVersion at which the views show it. When no new fact will come, it
        is the version of the one that stands.
        """
        version = int(resource_version or 0)
        if self.own_writes.is_waited_for(kind, key, uid) or not self._shows(
            kind, key, uid, version
        ):
            self.own_writes.wrote(scope, kind, key, uid=uid, resource_version=resource_version)
            return resource_version
        standing = self.published.standing(kind, key)
        if version and standing is not None and standing.uid == uid and not standing.gone:
            return standing.resource_version
        return resource_version

    def placed(self, scope: Scope, key: Key, *, uid: str) -> None:
        """A pod was bound."""
        standing = self.published.standing("pod", key)
        has_ended = standing is not None and standing.uid == uid and standing.gone
        shown = has_ended or self.places.is_placed(key, uid)
        if not shown or self.published.is_planned("pod", key):
            self.own_writes.placed(scope, key, uid=uid)

    def _shows(self, kind: str, key: Key, uid: str, version: int) -> bool:
        """Does STATE show this version of the object (0: its end), or what came after it?"""
        if self.published.is_planned(kind, key):
            return False
        standing = self.published.standing(kind, key)
        if not version:
            return standing is None or standing.gone or standing.uid != uid
        if standing is None:
            return False
        if standing.uid == uid:
            return standing.gone or self.published.seen_version(kind, key) >= version
        return int(standing.resource_version) > version
