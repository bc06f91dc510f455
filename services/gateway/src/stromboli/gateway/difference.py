"""Which facts a watch event or a list makes: only what differs from what stands on STATE.

Pure. The rules: an event older than what stands is dropped; a projection that did not change
is not published, unless somebody waits to see this very resourceVersion; a changed uid under
one name is the end of one object and the beginning of another; what a complete list does not
contain is gone.

A list shows the newest there is, so what is newer on STATE than in the list is in doubt. Up
to the list's own version STATE is wrong. Beyond it, the list may come from a server that lags
behind, or two gateways overlap: then the next list decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from stromboli.contracts.facts import ObjectGone, ObjectSeen
from stromboli.gateway.published import Key, Published, Standing, digest


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """An object as the API server has it, projected."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    projection: bytes

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


ObjectFact = ObjectSeen | ObjectGone
IsAwaited = Callable[[str, Key, str], bool]
"""(kind, key, resourceVersion): does somebody wait to see this version in the views?"""


@dataclass(slots=True)
class Difference:
    """The differences of one kind."""

    kind: str
    published: Published
    is_awaited: IsAwaited
    _listed: set[Key] | None = None
    _doubtful: dict[Key, Observed] = field(default_factory=dict[Key, Observed])
    _ahead: dict[Key, int] = field(default_factory=dict[Key, int])
    """What STATE had beyond the last list, by its sequence there."""
    _complete_up_to: int = 0
    """The version of the last complete list."""

    def seen(self, found: Observed, cause: str) -> list[ObjectFact]:
        """The object exists like this."""
        if self._listed is not None:
            self._listed.add(found.key)
        elif int(found.resource_version) <= self._complete_up_to:
            return []  # the list had it like this, or it is gone since
        standing = self.published.expected(self.kind, found.key)
        if standing is None:
            return [self._exists(found, cause)]
        if _older(found, standing):
            if self._listed is not None:
                self._doubtful[found.key] = found
            return []  # from a server that lags behind: it is another by now, or gone
        if standing.gone or not standing.uid:
            return [self._exists(found, cause)]
        if standing.uid != found.uid:
            return [*self.vanished(found.key, cause), self._exists(found, cause)]
        unchanged = standing.digest == digest(found.projection)
        if unchanged and not self.is_awaited(self.kind, found.key, found.resource_version):
            return []
        return [self._exists(found, cause)]

    def gone(self, found: Observed, cause: str) -> list[ObjectFact]:
        """The object was deleted; this was its last state."""
        standing = self.published.expected(self.kind, found.key)
        if standing is None or standing.gone or standing.uid not in {found.uid, ""}:
            return []
        return [
            ObjectGone(
                kind=self.kind,
                namespace=found.namespace,
                name=found.name,
                uid=found.uid,
                resource_version=found.resource_version,
                projection=msgspec.Raw(found.projection),
                cause=cause,
            )
        ]

    def list_started(self) -> None:
        self._listed = set()
        self._doubtful.clear()

    def list_abandoned(self) -> None:
        self._listed = None
        self._doubtful.clear()

    def exists(self, key: Key) -> None:
        """The list contains it, though it can't be read: what is known of it stays."""
        if self._listed is not None:
            self._listed.add(key)

    def list_done(self) -> list[Key]:
        """Objects that stand on STATE and that the complete list did not contain."""
        listed = self._listed or set[Key]()
        self._listed = None
        return [key for key in self.published.living(self.kind) if key not in listed]

    def corrections(self, list_version: str, cause: str) -> list[ObjectFact]:
        """What STATE has wrong, as the complete list of this version shows.

        What is beyond the list is left alone once; `has_doubts` says that another list is due.
        """
        vanished = self.list_done()
        self._complete_up_to = int(list_version)
        doubtful, self._doubtful = self._doubtful, {}
        before, self._ahead = self._ahead, {}
        facts: list[ObjectFact] = []
        for key in (*vanished, *doubtful):
            standing = self.published.expected(self.kind, key)
            if standing is None:
                continue
            if int(standing.resource_version) > int(list_version) and (
                before.get(key) != standing.sequence
            ):
                self._ahead[key] = standing.sequence
                continue
            # No end from the future: it would hide whatever has this name next.
            ended = self.vanished(key, cause, not_after=list_version)
            if key not in doubtful:
                facts += ended
            elif standing.uid == doubtful[key].uid:
                facts.append(self._exists(doubtful[key], cause))
            else:
                facts += [*ended, self._exists(doubtful[key], cause)]
        return facts

    @property
    def has_doubts(self) -> bool:
        return bool(self._ahead)

    def _exists(self, found: Observed, cause: str) -> ObjectSeen:
        return ObjectSeen(
            kind=self.kind,
            namespace=found.namespace,
            name=found.name,
            uid=found.uid,
            resource_version=found.resource_version,
            projection=msgspec.Raw(found.projection),
            cause=cause,
        )

    def vanished(self, key: Key, cause: str, *, not_after: str = "") -> list[ObjectFact]:
        """The end of an object of which only STATE still has the last projection.

        Where STATE has rubbish, the end has no uid: it is the end of whatever a view shows.
        """
        standing = self.published.expected(self.kind, key)
        if standing is None or standing.gone:
            return []
        versions = [standing.resource_version, not_after or standing.resource_version]
        return [
            ObjectGone(
                kind=self.kind,
                namespace=key[0],
                name=key[1],
                uid=standing.uid,
                resource_version=min(versions, key=int),
                projection=LAST_KNOWN,
                cause=cause,
            )
        ]


LAST_KNOWN = msgspec.Raw(b"")
"""Stands for "the projection on STATE": the writer reads it from there before it publishes."""


def _older(found: Observed, standing: Standing) -> bool:
    return int(found.resource_version) < int(standing.resource_version)
