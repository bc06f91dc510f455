"""OUTCOME: how each intent ended. Every intent ends in exactly one of these.

They carry uid and resourceVersion, so that the sender can wait for its own write to appear
in its view before it decides about that key again.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import AnyIntent, Fence, Verb
from stromboli.contracts.messages import Message, travels_on
from stromboli.contracts.subjects import CLUSTER

OUTCOME_SUBJECT = "vc.outcome.{service}.{verb}.{kind}"


class Reason(StrEnum):
    """Why an intent was refused; the message beside it is for people."""

    EXPIRED = "expired"
    """It was not applied before `not_after`."""
    FENCED = "fenced"
    """A newer leader of the same service and shard has taken over."""
    NOT_ALLOWED = "not-allowed"
    """No row of the permission table lets this service ask for this."""
    BAD_REQUEST = "bad-request"
    """The intent contradicts itself: no owner, a name that differs, a field not owned."""
    STALE = "stale"
    """The object is another one by now: uid or state differs from what was decided on."""
    NOT_FOUND = "not-found"
    """The object, or its namespace, does not exist."""
    INVALID = "invalid"
    """The API server refuses the object for good."""
    FORBIDDEN = "forbidden"
    """The API server does not allow it: quota, a webhook, missing rights."""
    UNKNOWN_TYPE = "unknown-type"
    """No gateway knew this type of intent until it expired."""


class Outcome(Message, frozen=True, kw_only=True):
    """Which intent this is the answer to."""

    intent_id: str
    service: str
    shard: str = CLUSTER
    verb: Verb
    kind: str
    key: str
    at: float = 0.0


@travels_on(OUTCOME_SUBJECT)
class Applied(Outcome, frozen=True, kw_only=True, tag="applied.v1"):
    """Kubernetes now is as the intent wanted."""

    namespace: str = ""
    name: str
    uid: str = ""
    resource_version: str = ""
    already: bool = False
    """It had been so before: a repeated delivery, or somebody else's doing."""


@travels_on(OUTCOME_SUBJECT)
class Refused(Outcome, frozen=True, kw_only=True, tag="refused.v1"):
    """It was not done and will not be done; the sender decides again."""

    namespace: str = ""
    name: str = ""
    reason: Reason
    message: str


class PodBound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How the binding of one pod ended."""

    name: str
    uid: str
    node: str
    bound: bool
    already: bool = False
    reason: Reason | None = None
    message: str = ""


@travels_on(OUTCOME_SUBJECT)
class GangBound(Outcome, frozen=True, kw_only=True, tag="gang.bound.v1"):
    """What became of each pod of one part of a gang."""

    namespace: str
    name: str
    attempt: str
    part: int
    parts: int
    pods: tuple[PodBound, ...]


@travels_on(OUTCOME_SUBJECT)
class FenceAnswered(Outcome, frozen=True, kw_only=True, tag="fence.answered.v1"):
    """All earlier intents in this partition have ended; decide once your view is this new."""

    partition: int
    epoch: Epoch
    incarnation: str
    state_sequence: int


AnyOutcome: TypeAlias = Applied | Refused | GangBound | FenceAnswered


def refused(intent: AnyIntent, reason: Reason, message: str, *, at: float) -> Refused:
    """The answer no to this intent."""
    named = not isinstance(intent, Fence)
    return Refused(
        intent_id=intent.id,
        service=intent.service,
        shard=intent.shard,
        verb=intent.verb,
        kind=intent.kind,
        key=intent.key,
        at=at,
        cause=intent.id,
        namespace=intent.namespace if named else "",
        name=intent.name if named else "",
        reason=reason,
        message=message,
    )
