"""Admission's side of the bus: STATE is read for ever, and HISTORY is written when possible.

The process answers reviews before NATS is there, and while it is away: reading and writing are a
task of their own, and a line of history that can't be written in time is dropped and counted.
No review ever waits for the bus.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.admission.facts import KINDS, ClusterFacts
from stromboli.contracts import codec
from stromboli.contracts.errors import ContractError
from stromboli.contracts.facts import SYNC_TOKEN
from stromboli.contracts.permissions import ADMISSION
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.streams import STATE, STATE_SUBJECT
from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.publisher import Publisher, publishing
from stromboli.runtime.bus.reader import LogReader
from stromboli.runtime.clock import Clock
from stromboli.runtime.telemetry import counter

__all__ = ["BusSide"]

_MAX_WAITING: Final = 10_000
_FILTERS: Final = tuple(f"{STATE_SUBJECT}{token}.>" for token in (*KINDS, SYNC_TOKEN))

_recorded = counter(
    "stromboli.admission.history", "Lines of history about reviews", labels=["outcome"]
)


@dataclass(slots=True)
class BusSide:
    """Keeps the facts up to date and takes what is to be remembered."""

    settings: BusSettings
    facts: ClusterFacts
    clock: Clock
    _connection: BusConnection | None = None
    _waiting: deque[HistoryRecorded] = field(default_factory=deque[HistoryRecorded])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.facts.connected = lambda: self.connected

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.connected

    def record(self, line: HistoryRecorded) -> None:
        """Write the line soon, or never: history explains, it does not decide."""
        if len(self._waiting) >= _MAX_WAITING:
            self._waiting.popleft()
            _recorded.add(1, outcome="dropped")
        self._waiting.append(line)
        self._news.set()

    async def run(self) -> None:
        """Connect, read and write; ends only by cancellation, or when NATS refuses us for good."""
        async with (
            connect(self.settings, ADMISSION) as connection,
            publishing(connection, self.clock) as publisher,
        ):
            self._connection = connection
            reader = LogReader(
                connection,
                self.clock,
                stream=STATE.name,
                filters=_FILTERS,
                listener=self.facts.view,
            )
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(reader.run(), name="state")
                    group.create_task(self._write(publisher), name="history")
            finally:
                self._connection = None

    async def _write(self, publisher: Publisher) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                line = self._waiting.popleft()
                try:
                    future = await publisher.send(line.subject(), codec.encode(line))
                except (BusError, ContractError):
                    _recorded.add(1, outcome="dropped")
                else:
                    future.add_done_callback(_count)


def _count(future: "asyncio.Future[Any]") -> None:
    failed = future.cancelled() or future.exception() is not None
    _recorded.add(1, outcome="dropped" if failed else "written")
