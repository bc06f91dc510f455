"""Write every delta of STATE to JOURNAL, which keeps what STATE forgets.

The server could republish STATE by itself, but a republished message carries the writer's
expected sequence and time to live, and JOURNAL, which counts otherwise, refuses it. So
whoever writes facts notes each one here as soon as STATE has it. A delta is stored once (its
STATE sequence is its message id) and, unless a write had to be repeated, in order. A process
that dies between the two writes leaves a gap, which the STATE sequences show.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial

from stromboli.contracts.errors import MessageTooLarge
from stromboli.contracts.streams import JOURNAL_SUBJECT, STATE_SUBJECT
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.publisher import PubAck, Publisher
from stromboli.runtime.logs import get_logger
from stromboli.runtime.quiet import once_per
from stromboli.runtime.telemetry import counter

log = get_logger(__name__)
quiet_log = once_per(30.0, log)

STATE_SEQUENCE = "Stromboli-State-Sequence"
STATE_INCARNATION = "Stromboli-State-Incarnation"

_RETRY_S = 0.25

_lost = counter("stromboli.journal.lost", "Deltas of STATE that are not in JOURNAL")


@dataclass(slots=True, frozen=True)
class _Entry:
    subject: str
    payload: bytes
    incarnation: str
    sequence: int


class Journal:
    """Takes notes without making the writer wait; `run` stores them until it is cancelled."""

    def __init__(self, publisher: Publisher, *, capacity: int = 20_000) -> None:
        self._publisher = publisher
        self._capacity = capacity
        self._waiting: deque[_Entry] = deque()
        self._wake = asyncio.Event()

    def note(self, subject: str, payload: bytes, *, incarnation: str, sequence: int) -> None:
        """STATE holds this message under this sequence."""
        if not subject.startswith(STATE_SUBJECT):
            raise ValueError(f"expected a subject of STATE, got {subject!r}")
        if len(self._waiting) >= self._capacity:
            # The facts themselves matter more than their history.
            self._lose(f"{self._capacity} are waiting already")
            return
        self._waiting.append(_Entry(subject, payload, incarnation, sequence))
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._store(self._waiting.popleft())

    async def _store(self, entry: _Entry) -> None:
        try:
            # Shares the window with the facts, so it keeps pace with them.
            answer = await self._send(entry)
        except MessageTooLarge as problem:
            self._lose(str(problem))
        except BusError as problem:
            self._again(entry, problem)
            await asyncio.sleep(_RETRY_S)
        else:
            answer.add_done_callback(partial(self._answered, entry))

    def _answered(self, entry: _Entry, answer: "asyncio.Future[PubAck]") -> None:
        if not answer.cancelled() and (problem := answer.exception()) is not None:
            self._again(entry, problem)

    def _again(self, entry: _Entry, problem: BaseException) -> None:
        quiet_log.warning("journal.delayed", problem=str(problem))
        self._waiting.appendleft(entry)
        self._wake.set()

    async def _send(self, entry: _Entry) -> "asyncio.Future[PubAck]":
        return await self._publisher.send(
            JOURNAL_SUBJECT + entry.subject.removeprefix(STATE_SUBJECT),
            entry.payload,
            headers={
                STATE_SEQUENCE: str(entry.sequence),
                STATE_INCARNATION: entry.incarnation,
            },
            message_id=f"{entry.incarnation}-{entry.sequence}",
        )

    def _lose(self, reason: str) -> None:
        _lost.add(1)
        quiet_log.error("journal.lost", reason=reason)
