"""Somebody who hears everything that is said on a bus, and when.

Facts, outcomes and history come from their streams, with the server's own times; intents are a
work queue, from which reading takes away: they are only overheard. It connects as the operator,
who may listen and not speak, so no service behaves differently because of it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from nats.aio.msg import Msg

from stromboli.api import kinds
from stromboli.api.projections import decode_projection
from stromboli.contracts import codec
from stromboli.contracts.facts import ObjectGone, ObjectSeen
from stromboli.contracts.messages import Message
from stromboli.contracts.permissions import OPERATOR
from stromboli.contracts.streams import DEAD, HISTORY, INTENT, OUTCOME, STATE
from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

__all__ = ["Eavesdropper", "Overheard", "eavesdropping"]

_DECODERS: dict[str, Callable[[bytes], Message]] = {
    STATE.name: codec.facts.decode,
    OUTCOME.name: codec.outcomes.decode,
    HISTORY.name: codec.history.decode,
    DEAD.name: codec.dead.decode,
    INTENT.name: codec.intents.decode,
}


class Overheard(msgspec.Struct, frozen=True):
    """One message, and when the server stored it (an intent: when it was heard)."""

    stream: str
    message: Message
    at: float

    def fact(self, kind: str) -> Any:
        """The object of a fact about this kind; None if this is something else."""
        if not isinstance(self.message, ObjectSeen) or self.message.kind != kind:
            return None
        return decode_projection(kinds.by_token(kind), self.message.projection)

    def end(self, kind: str) -> Any:
        """The last of an object of this kind that is gone; None if this is something else."""
        if not isinstance(self.message, ObjectGone) or self.message.kind != kind:
            return None
        return decode_projection(kinds.by_token(kind), self.message.projection)


Hear = Callable[[Overheard], None]


@dataclass(slots=True)
class _Stream:
    """From now on; of another incarnation, everything."""

    name: str
    hear: Hear
    incarnation: str = ""
    last: int = 0

    def attach(self, position: LogPosition) -> int:
        if not self.incarnation:
            self.last = position.last_sequence
        elif position.incarnation != self.incarnation:
            self.last = 0
        self.incarnation = position.incarnation
        return self.last + 1

    def apply(self, message: LogMessage) -> None:
        self.last = message.sequence
        decoded = _DECODERS[self.name](message.payload)
        self.hear(Overheard(self.name, decoded, message.timestamp))

    def caught_up(self) -> None:
        """News only."""


@dataclass(slots=True)
class Eavesdropper:
    """Everything heard so far, in the order of hearing; `on_word` is told at once."""

    words: list[Overheard] = field(default_factory=list[Overheard])
    on_word: Hear = lambda _: None

    def hear(self, word: Overheard) -> None:
        self.words.append(word)
        self.on_word(word)

    def of(self, stream: str) -> list[Overheard]:
        return [word for word in self.words if word.stream == stream]

    async def listen(self, connection: BusConnection, attached: asyncio.Event) -> None:
        async def overhear(message: Msg) -> None:
            decoded = codec.intents.decode(message.data)
            self.hear(Overheard(INTENT.name, decoded, time.time()))

        await connection.subscribe("vc.intent.>", overhear)
        readers = [
            LogReader(
                connection, SystemClock(), stream=spec.name, listener=_Stream(spec.name, self.hear)
            )
            for spec in (STATE, OUTCOME, HISTORY, DEAD)
        ]
        async with asyncio.TaskGroup() as group:
            for reader in readers:
                group.create_task(reader.run())
            await eventually(
                lambda: all(reader.attached for reader in readers),
                deadline_s=30,
                describe="the eavesdropper to hear all streams",
            )
            attached.set()


@contextlib.asynccontextmanager
async def eavesdropping(bus: BusSettings) -> AsyncGenerator[Eavesdropper]:
    """Hears everything from here on; give it the settings of the operator."""
    eavesdropper = Eavesdropper()
    attached = asyncio.Event()
    async with (
        connect(bus, OPERATOR) as connection,
        background(eavesdropper.listen(connection, attached)),
    ):
        async with asyncio.timeout(30):
            await attached.wait()
        yield eavesdropper
