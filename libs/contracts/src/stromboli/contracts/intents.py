"""INTENT: what a service wants done in Kubernetes. Questions with a life, not commands.

An intent is safe to deliver twice: a bind carries the pod's uid, a delete a uid precondition,
a create a fixed name and its owner's uid, a patch the uid in its body. Its id hashes what is
wanted and the fact it answers, so that deciding the same thing twice asks only once.
"""

from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec

from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.messages import Message, travels_on
from stromboli.contracts.partitions import partition_of
from stromboli.contracts.subjects import CLUSTER, Plain

INTENT_SUBJECT = "vc.intent.{partition}.{service}.{verb}.{kind}"
"""The service is part of the subject, so that the NATS server enforces who is speaking."""

CONTRACT = 2
"""Which version of the conversation over INTENT and OUTCOME this release speaks."""

BINDS_PER_PART = 500
"""A gang of 8,000 binds is close to the bus limit of 1 MiB; parts keep far below it."""


IntentId = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,200}\Z")]
"""It travels in a header and names the answer: never empty, no spaces, no line breaks."""
Life = Annotated[float, msgspec.Meta(gt=0, le=300)]
"""Seconds. An intent that never ends would hold up everything behind it."""


class PatchType(StrEnum):
    JSON = "json"
    MERGE = "merge"
    APPLY = "apply"


class Verb(StrEnum):
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    BIND = "bind"
    EVICT = "evict"
    FENCE = "fence"
    GENERATE = "generate"


class Envelope(Message, frozen=True, kw_only=True):
    """What every intent says about itself, whatever it wants.

    Decoding only this much of an intent of unknown type is how the gateway knows whom to answer.
    """

    verb: ClassVar[Verb]

    id: IntentId
    key: str
    """The root owner, see `partitions.job_key`."""
    service: Plain
    shard: Plain = CLUSTER
    epoch: Epoch = NO_EPOCH
    lives_s: Life = 15.0
    """For how long the gateway works on it, on its own clock, from when it begins."""
    sent_at: float = 0.0

    @property
    def partition(self) -> int:
        return partition_of(self.key)


class Intent(Envelope, frozen=True, kw_only=True):
    """An intent about one object."""

    kind: Plain
    namespace: str = ""
    name: str


@travels_on(INTENT_SUBJECT)
class CreateObject(Intent, frozen=True, kw_only=True, tag="create.v2"):
    """Create this object; one of the same name with the same owner counts as created."""

    verb: ClassVar[Verb] = Verb.CREATE

    owner_uid: str = ""
    """Controller owner in the same namespace; empty only where the permission row allows it."""
    manifest: bytes
    """The object as JSON, sent as it is."""


@travels_on(INTENT_SUBJECT)
class PatchObject(Intent, frozen=True, kw_only=True, tag="patch.v2"):
    """Patch fields that the sender owns, on the object with this uid and no other."""

    verb: ClassVar[Verb] = Verb.PATCH

    uid: str
    patch_type: PatchType = PatchType.MERGE
    subresource: str = ""
    patch: bytes
    """JSON; the gateway adds the uid, so that a successor of the same name is left alone."""


@travels_on(INTENT_SUBJECT)
class DeleteObject(Intent, frozen=True, kw_only=True, tag="delete.v2"):
    """Delete the object with this uid; one that is gone already counts as deleted."""

    verb: ClassVar[Verb] = Verb.DELETE

    uid: str
    grace_period_s: int | None = None
    propagation: str = "Background"


@travels_on(INTENT_SUBJECT)
class EvictPod(Intent, frozen=True, kw_only=True, tag="evict.v2"):
    """Evict the pod with this uid, within its disruption budget."""

    verb: ClassVar[Verb] = Verb.EVICT

    kind: Plain = "pod"
    uid: str
    grace_period_s: int | None = None


@travels_on(INTENT_SUBJECT)
class GenerateSecret(Intent, frozen=True, kw_only=True, tag="generate.v2"):
    """Make a Secret whose contents nobody but the gateway may know.

    One of the same name with the same owner counts as made. What the owner gives itself
    (a private key among a job's plugin arguments) the gateway reads from the owner.
    """

    verb: ClassVar[Verb] = Verb.GENERATE

    kind: Plain = "secret"
    recipe: str
    """What to make, e.g. `ssh-key-pair`."""
    owner_kind: str
    owner_name: str
    owner_uid: str
    parameters: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What the recipe needs to know; nothing of it is secret."""


class PodBinding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    name: str
    uid: str
    node: str


@travels_on(INTENT_SUBJECT)
class BindGang(Intent, frozen=True, kw_only=True, tag="bind.v2"):
    """Bind the pods of a gang: checked together, applied in parts, reported per pod.

    `name` is the PodGroup. All parts carry the same `attempt`; nothing is bound before the
    last part has arrived and every pod of every part has passed the check.
    """

    verb: ClassVar[Verb] = Verb.BIND

    kind: Plain = "pod"
    attempt: str
    part: int = 0
    parts: int = 1
    binds: tuple[PodBinding, ...]


@travels_on(INTENT_SUBJECT)
class Fence(Envelope, frozen=True, kw_only=True, tag="fence.v2"):
    """A new leader asks: has everything ended that this service and shard asked for before?"""

    verb: ClassVar[Verb] = Verb.FENCE
    kind: ClassVar[str] = CLUSTER

    contract: int
    """Which version of the conversation the sender speaks; the gateway refuses another."""


AnyIntent: TypeAlias = (
    CreateObject | PatchObject | DeleteObject | EvictPod | GenerateSecret | BindGang | Fence
)


def intent_id(*wanted: str | bytes | int | None) -> str:
    """Hash what is wanted and the fact it answers into an id.

    Pass the service, verb, kind, namespace, name, the body, and then the fact: uid and
    resourceVersion of the object it answers, or cycle and attempt.
    """
    return blake2b(_ENCODER.encode(wanted), digest_size=16).hexdigest()


_ENCODER: Final = msgspec.msgpack.Encoder()
"""Tells parts of different types apart, and is the same in every version of Python."""
