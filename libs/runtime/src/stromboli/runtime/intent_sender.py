"""Puts what stands in an intent book on the bus, beside the core that thinks.

An intent is sent until it is acknowledged, always the same bytes with the same message id. Only
what can never be stored is answered here, because nobody else will: too large for the bus, or
not allowed to this service.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from stromboli.contracts import codec
from stromboli.contracts.errors import MessageTooLarge
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Reason, refused
from stromboli.contracts.records import HistoryRecorded
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.errors import BusClosed, BusError
from stromboli.runtime.bus.leases import Lease
from stromboli.runtime.bus.publisher import PubAck, Publisher, is_for_good
from stromboli.runtime.clock import Clock
from stromboli.runtime.intent_book import Asked, IntentBook
from stromboli.runtime.logs import get_logger

__all__ = ["IntentSender"]

log = get_logger(__name__)

_LOOK_S: Final = 0.25
_MOST_RECORDS: Final = 20_000


class IntentSender:
    """Sends for one turn, as long as its lease is held."""

    def __init__(
        self,
        book: IntentBook,
        publisher: Publisher,
        connection: BusConnection,
        clock: Clock,
        lease: Lease,
        *,
        answered: Callable[[], None],
    ) -> None:
        """`answered` is called when an intent was refused here."""
        self._book = book
        self._publisher = publisher
        self._connection = connection
        self._clock = clock
        self._lease = lease
        self._news = asyncio.Event()
        self._answered = answered
        self._subjects: dict[tuple[int, str, str], str] = {}
        """Few, and each takes longer to make than the intent takes to send."""
        self._records: deque[HistoryRecorded] = deque(maxlen=_MOST_RECORDS)

    def wake(self) -> None:
        """There may be something to send."""
        self._news.set()

    def record(self, record: HistoryRecorded) -> None:
        """History explains decisions, it does not make them: what can't be sent is dropped."""
        self._records.append(record)
        self._news.set()

    async def run(self) -> None:
        while True:
            self._news.clear()
            if self._connection.connected:
                for asked in self._book.to_send(self._clock.monotonic()):
                    if not self._lease.held:
                        return
                    await self._send(asked)
                await self._send_records()
            await self._until_news()

    async def _until_news(self) -> None:
        wait_s = _LOOK_S
        retry = self._book.next_retry()
        if retry is not None and self._connection.connected:
            wait_s = max(0.0, min(wait_s, retry - self._clock.monotonic()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()

    async def _send(self, asked: Asked) -> None:
        try:
            future = await self._publisher.send(
                self._subject_of(asked.intent),
                asked.payload,
                message_id=asked.id,
                headers=asked.headers,
            )
        except MessageTooLarge as problem:
            self._refuse(asked, Reason.INVALID, problem)
        except BusError as problem:
            self._failed(asked, problem)
        else:
            future.add_done_callback(partial(self._sent, asked))

    def _subject_of(self, intent: AnyIntent) -> str:
        """All intents of this sender name the same service."""
        what = (intent.partition, intent.verb, intent.kind)
        if what not in self._subjects:
            self._subjects[what] = intent.subject()
        return self._subjects[what]

    def _sent(self, asked: Asked, future: "asyncio.Future[PubAck]") -> None:
        if future.cancelled():
            return
        problem = future.exception()
        if problem is None:
            self._book.stored(asked, self._clock.monotonic())
            self._news.set()
        elif is_for_good(problem) and not isinstance(problem, BusClosed):
            self._refuse(asked, Reason.NOT_ALLOWED, problem)
        else:
            self._failed(asked, problem)

    def _failed(self, asked: Asked, problem: BaseException) -> None:
        log.info("intent.not_acknowledged", key=asked.intent.key, problem=str(problem))
        self._book.failed(asked, self._clock.monotonic())

    def _refuse(self, asked: Asked, reason: Reason, problem: BaseException) -> None:
        log.warning("intent.not_sent", key=asked.intent.key, problem=str(problem))
        now = self._clock.now().timestamp()
        self._book.refuse(asked, refused(asked.intent, reason, str(problem), at=now))
        self._news.set()
        self._answered()

    async def _send_records(self) -> None:
        while self._records:
            record = self._records.popleft()
            with contextlib.suppress(BusError, MessageTooLarge):
                future = await self._publisher.send(record.subject(), codec.encode(record))
                future.add_done_callback(_swallow)


def _swallow(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
