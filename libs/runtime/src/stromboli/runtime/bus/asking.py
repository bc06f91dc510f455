"""A deciding service's side of the conversation: ask, and hear the answers that count.

Intents go out with their id as message id, so that a repeated publish within the server's
window is stored once. Answers come back on the service's own OUTCOME subjects.
"""

import asyncio
from collections.abc import Callable

from stromboli.contracts import codec
from stromboli.contracts.errors import Undecodable
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome, OutcomeLog
from stromboli.contracts.streams import OUTCOME
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.publisher import PubAck, Publisher
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import inject

__all__ = ["OutcomeListener", "ask", "outcome_reader", "start_asking"]

log = get_logger(__name__)


async def ask(publisher: Publisher, intent: AnyIntent) -> PubAck:
    """Put an intent on the bus; raises when it is not certain to be there."""
    return await (await start_asking(publisher, intent))


async def start_asking(publisher: Publisher, intent: AnyIntent) -> "asyncio.Future[PubAck]":
    """Send an intent; whether it is on the bus is told by the future."""
    headers: dict[str, str] = {}
    inject(headers)
    return await publisher.send(
        intent.subject(), codec.encode(intent), message_id=intent.id, headers=headers
    )


class OutcomeListener:
    """Hears the outcomes of one service that count, from when it first attached.

    Older ones belong to a former life. But whose answers count may have been said long ago, so
    it begins with the last message of every subject, the gateway's turn among them.
    """

    def __init__(self, heard: Callable[[AnyOutcome], None]) -> None:
        self._heard = heard
        self._log = OutcomeLog()
        self._incarnation = ""
        self._next = 0
        """The first sequence to read; 0 before anything was read."""
        self._reaches = 0
        self._former = 0
        """The last sequence of our former life."""
        self.unreadable = 0
        self.setbacks = 0
        """How often the log was another one, or had lost its end."""

    def attach(self, position: LogPosition) -> int:
        if not self._incarnation:
            self._former = position.last_sequence
        elif position.incarnation != self._incarnation or position.last_sequence < self._next - 1:
            self.setbacks += 1
            self._next = 1
            self._former = 0
            self._log.clear()
        self._incarnation = position.incarnation
        self._reaches = position.last_sequence
        return self._next

    def apply(self, message: LogMessage) -> None:
        if message.sequence < self._next:
            return
        self._next = message.sequence + 1
        try:
            said = codec.outcomes.decode(message.payload)
        except Undecodable as problem:
            self.unreadable += 1
            log.warning("outcome.unreadable", sequence=message.sequence, problem=str(problem))
            return
        outcome = self._log.counting(said)
        if outcome is not None and message.sequence > self._former:
            self._heard(outcome)

    def caught_up(self) -> None:
        """Nothing that stood there when we attached is left to be read."""
        self._next = max(self._next, self._reaches + 1)


def outcome_reader(connection: BusConnection, clock: Clock, listener: OutcomeListener) -> LogReader:
    """A reader of this service's outcomes; run it beside the view's reader."""
    return LogReader(
        connection,
        clock,
        stream=OUTCOME.name,
        filters=[f"vc.outcome.{connection.service}.>"],
        listener=listener,
    )
