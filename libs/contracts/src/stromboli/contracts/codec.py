"""Messages to bytes and back; one typed decoder per family, built once.

What can't be decoded is told apart: an unknown tag may come from a newer version and is not
an error of the sender, everything else is rubbish and belongs in DEAD.
"""

from typing import Generic, TypeVar, cast, get_args

import msgspec

from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.errors import Undecodable, UnknownTag
from stromboli.contracts.facts import Fact
from stromboli.contracts.intents import AnyIntent, IntentId, Life
from stromboli.contracts.messages import Message
from stromboli.contracts.outcomes import OutcomeMessage
from stromboli.contracts.records import DeadLetter, HistoryRecorded
from stromboli.contracts.subjects import CLUSTER, Plain

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    """The bytes that travel."""
    return _encoder.encode(message)


class _Tagged(msgspec.Struct):
    type: str


class AnyEnvelope(msgspec.Struct, kw_only=True):
    """The envelope of an intent whatever its type."""

    type: str
    id: IntentId
    key: str
    service: Plain
    shard: Plain = CLUSTER
    epoch: Epoch = NO_EPOCH
    lives_s: Life = 15.0


class Decoder(Generic[T]):
    """Decodes one family of messages and says why it could not."""

    def __init__(self, family: str, message_type: type[T]) -> None:
        self.family = family
        self._decoder = msgspec.msgpack.Decoder(message_type)
        self._tag = msgspec.msgpack.Decoder(_Tagged)
        self._known = {m.__struct_config__.tag for m in _members(message_type)}

    def decode(self, data: bytes) -> T:
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise self._explain(data, problem) from problem

    def _explain(self, data: bytes, problem: Exception) -> Undecodable:
        try:
            tag = self._tag.decode(data).type
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Undecodable(self.family, str(problem))
        if tag in self._known:
            return Undecodable(self.family, f"{tag}: {problem}")
        return UnknownTag(self.family, tag)


def _members(message_type: object) -> tuple[type[Message], ...]:
    """The Structs of a union, or the one Struct it is."""
    return get_args(message_type) or (cast("type[Message]", message_type),)


facts: Decoder[Fact] = Decoder("state", Fact)  # pyright: ignore[reportArgumentType]
intents: Decoder[AnyIntent] = Decoder("intent", AnyIntent)  # pyright: ignore[reportArgumentType]
outcomes: Decoder[OutcomeMessage] = Decoder("outcome", OutcomeMessage)  # pyright: ignore[reportArgumentType]
history: Decoder[HistoryRecorded] = Decoder("history", HistoryRecorded)
dead: Decoder[DeadLetter] = Decoder("dead", DeadLetter)

_envelope = msgspec.msgpack.Decoder(AnyEnvelope)


def envelope_of(data: bytes) -> AnyEnvelope:
    """The envelope of an intent of unknown type: whom to answer."""
    try:
        return _envelope.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Undecodable("intent", f"its envelope is incomplete: {problem}") from problem
