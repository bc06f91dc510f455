"""A deciding service that looks at its watch: when did each fact and each outcome arrive?

It uses the very modules that services use (connection, publisher, readers, view) and adds times.
All times are the machine's wall clock, because the NATS server stamps messages with it: with
everything on one machine, the parts of a way then add up to the whole.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import decode_projection
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome
from stromboli.contracts.streams import STATE, STREAMS
from stromboli.runtime.bus.asking import OutcomeListener, ask, outcome_reader
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import Publisher, publishing
from stromboli.runtime.bus.reader import LogMessage, LogReader
from stromboli.runtime.bus.streams import wait_for
from stromboli.runtime.bus.view import Delta, View
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

__all__ = ["STAMP", "Arrival", "Heard", "MeasuringPeer", "decode", "measuring_peer"]

STAMP = "bench.stromboli/stamp"
"""A label whose value tells one change of an object from the next."""

_DEADLINE_S = 60.0


class Arrival(msgspec.Struct, frozen=True):
    """One fact's last two steps."""

    stored_at: float
    """The NATS server's own stamp on the message."""
    in_view_at: float


class Heard(msgspec.Struct, frozen=True):
    """One outcome, and when it was heard."""

    outcome: AnyOutcome
    at: float


class _StampedView(View[Any]):
    stored_at = 0.0

    def apply(self, message: LogMessage) -> None:
        self.stored_at = message.timestamp
        super().apply(message)


@dataclass
class MeasuringPeer:
    """Made by `measuring_peer`."""

    publisher: Publisher
    words: BusPeer
    """Says intents; it is never connected itself."""
    view: _StampedView = field(init=False)
    _arrivals: dict[tuple[str, str], "asyncio.Future[Arrival]"] = field(default_factory=dict)
    _answers: dict[str, "asyncio.Future[Heard]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view = _StampedView(self.words.kinds, decode, self)

    # What the view and the outcome reader tell.

    def changed(self, delta: Delta[Any]) -> None:
        if delta.new is None:
            return
        stamp = delta.new.object.metadata.labels.get(STAMP)
        waiting = self._arrivals.pop((delta.name, stamp), None) if stamp is not None else None
        if waiting is not None:
            waiting.set_result(Arrival(self.view.stored_at, time.time()))

    def synced(self, kind: str) -> None:
        """Looked at through `view.unsynced`."""

    def unreadable(self, message: LogMessage, reason: str) -> None:
        raise ValueError(f"a fact on {message.subject} can't be read: {reason}")

    def heard(self, outcome: AnyOutcome) -> None:
        waiting = self._answers.pop(outcome.intent_id, None)
        if waiting is not None:
            waiting.set_result(Heard(outcome, time.time()))

    # What a figure asks.

    def expect(self, name: str, stamp: str) -> "asyncio.Future[Arrival]":
        """Resolves when the object of that name is in the view with this stamp."""
        future: asyncio.Future[Arrival] = asyncio.get_running_loop().create_future()
        self._arrivals[name, stamp] = future
        return future

    async def ask(self, intent: AnyIntent) -> "asyncio.Future[Heard]":
        """Put an intent on the bus; the future resolves with its outcome."""
        future: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._answers[intent.id] = future
        await ask(self.publisher, intent)
        return future

    async def until_synced(self) -> None:
        await eventually(
            lambda: not self.view.unsynced, deadline_s=_DEADLINE_S, describe="the view is synced"
        )

    async def until_in_view(self, kind: str, count: int, namespace: str) -> None:
        """Return when the view has so many objects of the namespace."""
        await eventually(
            lambda: sum(key[0] == namespace for key in self.view.objects(kind)) >= count,
            deadline_s=_DEADLINE_S,
            describe=f"{count} objects of kind {kind} in the view",
        )


def decode(token: str, projection: msgspec.Raw) -> Any:
    """What a view of any service does with a projection."""
    return decode_projection(kinds.by_token(token), projection)


@contextlib.asynccontextmanager
async def measuring_peer(
    service: str, url: str, watched: Sequence[str]
) -> AsyncGenerator[MeasuringPeer]:
    """A connected peer whose view is synced."""
    clock = SystemClock()
    async with (
        connect(BusSettings(url=url), service) as connection,
        publishing(connection, clock) as publisher,
    ):
        await wait_for(JetStream(connection), STREAMS[:3])
        peer = MeasuringPeer(publisher, BusPeer(service, url, watched))
        filters = [f"vc.state.{token}.>" for token in (*watched, "sync")]
        state = LogReader(connection, clock, stream=STATE.name, filters=filters, listener=peer.view)
        outcomes = outcome_reader(connection, clock, OutcomeListener(peer.heard))
        async with background(state.run(), outcomes.run()):
            await eventually(
                lambda: state.attached and outcomes.attached, describe="the readers attach"
            )
            await peer.until_synced()
            yield peer
