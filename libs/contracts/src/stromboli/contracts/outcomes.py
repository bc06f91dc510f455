"""OUTCOME: how each intent ended. Every stored intent ends in exactly one that counts.

They carry uid and resourceVersion, so that the sender can wait for its own write to appear
in its view before it decides about that key again.

Two gateways may answer the same intent, when one of them was frozen and does not know yet that
the other one leads. So each outcome names its gateway, each gateway announces its turn on the
same log before it answers anything, and `OutcomeLog` tells which outcomes count.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.intents import AnyIntent, Fence, Verb
from stromboli.contracts.messages import Message, travels_on
from stromboli.contracts.subjects import CLUSTER

OUTCOME_SUBJECT = "vc.outcome.{service}.{verb}.{kind}"


class Reason(StrEnum):
    """Why an intent was refused; the message beside it is for people."""

    EXPIRED = "expired"
    """It was not applied within its life, and it is certain that it will not be."""
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
    """This gateway does not know this type of intent."""
    UNREADABLE = "unreadable"
    """The gateway could not decode it; what it was is in DEAD."""


class Outcome(Message, frozen=True, kw_only=True):
    """Which intent this is the answer to."""

    intent_id: str
    service: str
    shard: str = CLUSTER
    verb: Verb
    kind: str
    key: str
    at: float = 0.0
    gateway: Epoch = NO_EPOCH
    """Whose answer it is. It counts only in the turn of that gateway."""


@travels_on("vc.outcome.{service}.turn.-")
class GatewayTurn(Message, frozen=True, kw_only=True, tag="gateway.turn.v1"):
    """From here on only the answers of this gateway count, for this service."""

    service: str
    gateway: Epoch


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


@travels_on(OUTCOME_SUBJECT)
class Uncertain(Outcome, frozen=True, kw_only=True, tag="uncertain.v1"):
    """It may have been done, or may still be: the API server was asked and did not answer.

    The sender keeps what it has set aside for it until a fact, or the answer to the same wish
    asked again, says how it is.
    """

    namespace: str = ""
    name: str = ""
    message: str


class PodBound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How the binding of one pod ended."""

    name: str
    uid: str
    node: str
    bound: bool
    already: bool = False
    uncertain: bool = False
    """Not known to be bound, and perhaps bound later: its room stays taken."""
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
    resource_version: str = ""
    """The highest version in which one of these pods was seen on its node."""


class AssumedPod(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pod of which it is not certain whether it was bound, or still will be."""

    namespace: str
    name: str
    uid: str
    node: str


@travels_on(OUTCOME_SUBJECT)
class FenceAnswered(Outcome, frozen=True, kw_only=True, tag="fence.answered.v2"):
    """Everything that this service and shard asked for before the fence has ended.

    Decide once the view has reached `versions`, and take the room of `assumed` as taken.
    """

    epoch: Epoch
    versions: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Kind → the highest resourceVersion that was written for this service."""
    assumed: tuple[AssumedPod, ...] = ()


AnyOutcome: TypeAlias = Applied | Refused | Uncertain | GangBound | FenceAnswered
OutcomeMessage: TypeAlias = AnyOutcome | GatewayTurn
"""What stands on OUTCOME."""


class OutcomeLog:
    """Which outcomes count, as the log itself says. Senders and gateways read it alike.

    An outcome counts if its gateway is the one of the last `GatewayTurn` before it. What a
    gateway stores after its successor has announced itself is as if it had not been said.
    """

    def __init__(self) -> None:
        self._turns: dict[str, Epoch] = {}

    def turn_of(self, service: str) -> Epoch | None:
        return self._turns.get(service)

    def counting(self, message: OutcomeMessage) -> AnyOutcome | None:
        """The next message of the log: the outcome, if it is one and counts."""
        if isinstance(message, GatewayTurn):
            self._turns[message.service] = message.gateway
            return None
        return message if message.gateway == self._turns.get(message.service) else None

    def clear(self) -> None:
        """The log is another one, or is read again from its beginning."""
        self._turns.clear()


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
