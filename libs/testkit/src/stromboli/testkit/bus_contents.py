"""What is stored on the bus, read message by message, without a consumer that could disturb."""

import base64
import functools
from collections import Counter

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.outcomes import AnyOutcome, OutcomeLog
from stromboli.contracts.records import DeadLetter
from stromboli.contracts.streams import DEAD, OUTCOME, STREAMS
from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.errors import Unanswered
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.waiting import eventually

__all__ = [
    "dead_letters",
    "make_streams",
    "outcomes_per_intent",
    "purge",
    "stored_messages",
    "stored_outcomes",
]

_NO_MESSAGE = 404
_ANSWERED_S = 30.0


class _Message(msgspec.Struct):
    subject: str
    seq: int
    data: str = ""


class _Error(msgspec.Struct):
    code: int = 0
    description: str = ""


class _Answer(msgspec.Struct):
    message: _Message | None = None
    error: _Error | None = None


class StoredMessage(msgspec.Struct, frozen=True):
    """One message of a stream."""

    subject: str
    sequence: int
    payload: bytes


async def stored_messages(
    connection: BusConnection, stream: str, subject: str = ">"
) -> list[StoredMessage]:
    """Everything that a stream holds under a subject filter, oldest first."""
    found: list[StoredMessage] = []
    after = 0
    while True:
        body = msgspec.json.encode({"seq": after + 1, "next_by_subj": subject})
        answer = await eventually(
            functools.partial(_next_message, connection, stream, body),
            deadline_s=_ANSWERED_S,
            interval_s=0.1,
            describe=f"an answer from {stream}",
        )
        if answer.message is None:
            return found
        message = answer.message
        payload = base64.b64decode(message.data)
        found.append(StoredMessage(message.subject, message.seq, payload))
        after = message.seq


async def _next_message(connection: BusConnection, stream: str, body: bytes) -> _Answer | None:
    """None, or an error other than "no message", while nobody leads the stream."""
    try:
        raw = await connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", body)
    except Unanswered:
        return None
    answer = msgspec.json.decode(raw.data, type=_Answer)
    assert answer.error is None or answer.error.code == _NO_MESSAGE, answer.error.description
    return answer


async def make_streams(url: str) -> None:
    """Make the streams, as an init job would: they hold nothing yet."""
    async with connect(BusSettings(url=url), "gateway") as connection:
        await reconcile(JetStream(connection), STREAMS)


async def stored_outcomes(peer: BusPeer) -> list[AnyOutcome]:
    """All outcomes on the bus that count, of whatever service."""
    turns = OutcomeLog()
    messages = await stored_messages(peer.connection, OUTCOME.name)
    said = (turns.counting(codec.outcomes.decode(message.payload)) for message in messages)
    return [outcome for outcome in said if outcome is not None]


async def outcomes_per_intent(peer: BusPeer) -> Counter[str]:
    """How often each intent was answered."""
    return Counter(outcome.intent_id for outcome in await stored_outcomes(peer))


async def dead_letters(peer: BusPeer) -> list[DeadLetter]:
    """All dead letters that the bus holds."""
    messages = await stored_messages(peer.connection, DEAD.name)
    return [codec.dead.decode(message.payload) for message in messages]


async def purge(connection: BusConnection, stream: str, subject: str = ">") -> int:
    """Remove the messages of a subject by hand, as no service ever does; how many went."""
    body = msgspec.json.encode({"filter": subject})
    raw = await connection.request(f"$JS.API.STREAM.PURGE.{stream}", body)
    return int(msgspec.json.decode(raw.data)["purged"])
