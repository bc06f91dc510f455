"""STATE: the newest fact about every object, and what makes the facts trustworthy.

A fact carries the object's *projection* (the fields we use, as msgpack bytes made by
`stromboli.api`). `resource_version` travels beside the projection, because a change of it
alone is not a change. Only the gateway's leader speaks here.
"""

from typing import TypeAlias

import msgspec

from stromboli.contracts.messages import Message, travels_on
from stromboli.contracts.subjects import CLUSTER, SubjectTemplate

OBJECT_SUBJECT = "vc.state.{kind}.{namespace}.{name}"
OBJECTS = SubjectTemplate(OBJECT_SUBJECT)

SYNC_TOKEN = "sync"  # noqa: S105 (a subject token, not a secret)

TOMBSTONE_LIFE_S = 600
"""A reader that was away for less than half of this has missed no deletion."""

NOTHING_NEW = msgspec.Raw(b"\xc0")
"""The projection of an end that adds nothing to what the views know of the object (a nil)."""


@travels_on(OBJECT_SUBJECT)
class ObjectSeen(Message, frozen=True, kw_only=True, tag="object.seen.v1"):
    """The object exists and its projection is this."""

    kind: str
    namespace: str = ""
    name: str
    uid: str
    resource_version: str
    projection: msgspec.Raw


@travels_on(OBJECT_SUBJECT)
class ObjectGone(Message, frozen=True, kw_only=True, tag="object.gone.v1"):
    """The object with this uid is gone.

    Of a pod the projection has metadata and status, which say how it ended. Of everything else
    it is NOTHING_NEW: thousands of ends stand on STATE beside what lives, so they are small.
    """

    kind: str
    namespace: str = ""
    name: str
    uid: str
    resource_version: str
    projection: msgspec.Raw


@travels_on("vc.state.sync.-.{kind}")
class KindSynced(Message, frozen=True, kw_only=True, tag="kind.synced.v1"):
    """The position of a kind: STATE is complete for it up to this resourceVersion.

    Absence then means absence. It moves with the kind's facts, and a successor watches on from
    there. What a write was answered with is in every view whose position has reached it.
    """

    kind: str
    incarnation: str
    """`created` time of the STATE stream that the list was published to."""
    resource_version: str
    count: int
    """Of objects, when it was last listed."""


Fact: TypeAlias = ObjectSeen | ObjectGone | KindSynced


def object_at(subject: str) -> tuple[str, str, str]:
    """(kind, namespace, name) of the object whose facts travel on this subject.

    For a message that can't be read, this is all there is to know about it. The subjects of
    positions read as objects of the kind `sync`.
    """
    place = OBJECTS.parse(subject)
    namespace = "" if place["namespace"] == CLUSTER else place["namespace"]
    return place["kind"], namespace, place["name"]
