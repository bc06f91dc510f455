"""Which facts a watch event or a list makes: only what differs from what stands on STATE.

Pure. The rules: an event older than what stands is dropped; a projection that did not change
is not published; a changed uid under one name is the end of one object and the beginning of
another; what a complete list does not contain is gone.

A version on STATE is a claim, what a list shows is knowledge. After a complete list nothing
of its kind, living or gone, stands beyond the list's own version: a later object of that name
would be taken for an older state, and stay hidden. A list is consistent, so it shows all that
the API server had confirmed when it began. Only what was written while it was under way, by a
gateway that overlaps with us, may know more: then the next list decides.
"""

from dataclasses import dataclass, field

import msgspec

from stromboli.contracts.facts import NOTHING_NEW, ObjectGone, ObjectSeen
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


@dataclass(slots=True)
class Difference:
    """The differences of one kind."""

    kind: str
    published: Published
    _listed: set[Key] | None = None
    _doubtful: dict[Key, Observed] = field(default_factory=dict[Key, Observed])
    _began_at: int = 0
    """The newest sequence on STATE when the list began."""
    has_doubts: bool = False
    """Did something beyond the last list come to STATE meanwhile? Then another list is due."""
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
            end = self._end(found.key, standing, standing.resource_version, cause)
            return [end, self._exists(found, cause)]
        if standing.digest == digest(found.projection):
            return []
        return [self._exists(found, cause)]

    def gone(self, found: Observed, cause: str) -> list[ObjectFact]:
        """The object was deleted; its projection is what its end adds to what is known."""
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
        self._began_at = self.published.sequence
        self._doubtful.clear()

    def list_abandoned(self) -> None:
        self._listed = None
        self._doubtful.clear()

    def exists(self, key: Key) -> None:
        """The list contains it, though it can't be read: what is known of it stays."""
        if self._listed is not None:
            self._listed.add(key)

    def corrections(self, list_version: str, cause: str) -> list[ObjectFact]:
        """What STATE has wrong, as the complete list of this version shows."""
        listed, self._listed = self._listed or set[Key](), None
        doubtful, self._doubtful = self._doubtful, {}
        self._complete_up_to = int(list_version)
        self.has_doubts = False
        facts: list[ObjectFact] = []
        for key, standing in self.published.expectations(self.kind).items():
            if self._came_meanwhile(standing):
                self.has_doubts = True
            elif key in doubtful:
                facts += self._as_listed(doubtful[key], standing, cause)
            elif key not in listed or standing.gone:
                facts += self._ended(key, standing, cause)
        return facts

    def _is_beyond(self, standing: Standing) -> bool:
        return int(standing.resource_version) > self._complete_up_to

    def _came_meanwhile(self, standing: Standing) -> bool:
        return self._is_beyond(standing) and standing.sequence > self._began_at

    def _as_listed(self, found: Observed, standing: Standing, cause: str) -> list[ObjectFact]:
        exists = self._exists(found, cause)
        if standing.gone or standing.uid == found.uid:
            return [exists]
        return [*self._ended(found.key, standing, cause), exists]

    def _ended(self, key: Key, standing: Standing, cause: str) -> list[ObjectFact]:
        """The list does not contain it: its end, and never one from the future."""
        if standing.gone and not self._is_beyond(standing):
            return []
        version = min(int(standing.resource_version), self._complete_up_to)
        return [self._end(key, standing, str(version), cause)]

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

    def _end(self, key: Key, standing: Standing, resource_version: str, cause: str) -> ObjectGone:
        """The end of an object that nobody saw end: it was as STATE has it, or had it once.

        Where STATE has rubbish, the end has no uid: it is the end of whatever a view shows.
        """
        return ObjectGone(
            kind=self.kind,
            namespace=key[0],
            name=key[1],
            uid=standing.uid,
            resource_version=resource_version,
            projection=NOTHING_NEW,
            cause=cause,
        )


def _older(found: Observed, standing: Standing) -> bool:
    return int(found.resource_version) < int(standing.resource_version)
