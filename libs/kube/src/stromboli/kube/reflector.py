"""List everything, then watch what changes, for as long as we live: one kind, as one stream.

The stream says what happened and decides nothing: whoever reads it compares with what it
knows. Its promises:

- Between `ListStarted` and `ListDone` come all objects of one resourceVersion, page by page;
  a list that can not be finished ends in `ListAbandoned` and is started again.
- After `ListDone(rv)` every change after rv is reported once and in order, unless a new
  `ListStarted` says that history was lost (410), or that somebody or the timer asked for it.
- Every failure is reported as `Interrupted` before the pause that follows it. None ends the
  stream: a server may be away for a day. Only its reader ends it.

The reader sets the pace: while it works, nothing is read, and the server's connection fills up.
No page is kept. Use it within `contextlib.aclosing`, so that the connection closes in time.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from stromboli.kube.backoff import Backoff
from stromboli.kube.client import KubeClient
from stromboli.kube.errors import (
    ApiError,
    BadRequest,
    Gone,
    KubeError,
    TooLarge,
    TooManyRequests,
    Undecodable,
    Unreachable,
)
from stromboli.kube.paths import ResourceKind
from stromboli.kube.watching import Watch
from stromboli.kube.wire import EventType, WatchEvent

__all__ = [
    "Bookmark",
    "Change",
    "Changed",
    "Interrupted",
    "ListAbandoned",
    "ListDone",
    "ListPage",
    "ListReason",
    "ListStarted",
    "Reflector",
    "ReflectorHealth",
    "ReflectorSettings",
]

SHORT_WATCH_S: Final = 1.0
"""A watch that ends sooner than this without an event counts as failed."""

STUCK_AFTER: Final = 8
"""So many answered refusals of a watch in a row, and we begin again with a list."""

MAX_PAGE_LIMIT: Final = 10_000


class ListReason(StrEnum):
    """Why a list is taken."""

    FIRST = "first"
    EXPIRED = "expired"
    """The server's history no longer reaches back to where we were."""
    UNREADABLE = "unreadable"
    """The watch brought something too large or not decodable; a list goes round it."""
    STUCK = "stuck"
    """The server has refused this watch many times over, for whatever reason."""
    REQUESTED = "requested"
    TIMER = "timer"
    AGAIN = "again"
    """The list before it was abandoned."""


class ListStarted(msgspec.Struct, frozen=True):
    """What comes now, until `ListDone`, is everything there is."""

    reason: ListReason


class ListPage(msgspec.Struct, frozen=True):
    """Some of the objects; windows on one buffer, see `wire`."""

    items: list[msgspec.Raw]


class ListDone(msgspec.Struct, frozen=True):
    """The list was complete: `count` objects, as of `resource_version`."""

    resource_version: str
    count: int


class ListAbandoned(msgspec.Struct, frozen=True):
    """The list broke off: what was seen of it is not everything."""

    error: KubeError


class Changed(msgspec.Struct, frozen=True):
    """One object was added, modified or deleted."""

    event: WatchEvent


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to here was reported; a good place to resume."""

    resource_version: str


class Interrupted(msgspec.Struct, frozen=True):
    """The watch or list failed; it goes on after `retry_in_s`."""

    error: KubeError
    retry_in_s: float


Change: TypeAlias = (
    ListStarted | ListPage | ListDone | ListAbandoned | Changed | Bookmark | Interrupted
)


class ReflectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind is followed."""

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    page_limit: int = 500
    watch_timeout_s: float = 240.0
    relist_every_s: float = 1800.0
    """The safety net: a full list although nothing went wrong. Jittered by a tenth."""
    first_retry_s: float = 0.2
    max_retry_s: float = 30.0


@dataclass(slots=True)
class ReflectorHealth:
    """How it is going; times are the event loop's."""

    connected: bool = False
    listed: bool = False
    resource_version: str = ""
    lists: int = 0
    watches: int = 0
    interruptions: int = 0
    last_heard_at: float | None = None
    last_error: KubeError | None = None


class Reflector:
    """One kind's stream of changes; read `changes` once."""

    def __init__(
        self,
        kube: KubeClient,
        kind: ResourceKind,
        *,
        rng: random.Random,
        settings: ReflectorSettings | None = None,
        resume_from: str | None = None,
    ) -> None:
        """`resume_from` is a resourceVersion to watch from, without a list before it."""
        if resume_from is not None and not resume_from.isdecimal():
            raise ValueError(f"resume_from {resume_from!r} is not a resourceVersion")
        self.kind = kind
        self.health = ReflectorHealth(resource_version=resume_from or "")
        self._kube = kube
        self._settings = settings or ReflectorSettings()
        self._rng = rng
        self._backoff = Backoff(
            first_s=self._settings.first_retry_s, max_s=self._settings.max_retry_s, rng=rng
        )
        self._page_limit = self._settings.page_limit
        self._list_due: ListReason | None = None if resume_from else ListReason.FIRST
        self._requested = False
        self._relist_at = float("inf")
        self._refusals = 0
        self._reading: asyncio.Timeout | None = None

    def request_relist(self) -> None:
        """List as soon as possible, also in the middle of a quiet watch.

        A list that is under way does not count: it may show the state before this call.
        """
        self._requested = True
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(_now())

    async def changes(self) -> AsyncGenerator[Change, None]:
        """The stream; it ends only when its reader does."""
        self._plan_relist()
        while True:
            if self._list_due is None and self._requested:
                self._list_due = ListReason.REQUESTED
            steps = self._list(self._list_due) if self._list_due else self._watch()
            failure: KubeError | None = None
            async with aclosing(steps):
                try:
                    async for change in steps:
                        yield change
                except KubeError as error:
                    failure = error
            if failure is not None:
                retry_in_s = self._after(failure)
                yield Interrupted(failure, retry_in_s)
                await asyncio.sleep(retry_in_s)

    async def _list(self, reason: ListReason) -> AsyncGenerator[Change, None]:
        self._requested = False
        self._list_due = ListReason.AGAIN  # until this one is complete
        yield ListStarted(reason)
        count = 0
        version = ""
        pages = self._kube.list_pages(
            self.kind,
            namespace=self._settings.namespace,
            label_selector=self._settings.label_selector,
            field_selector=self._settings.field_selector,
            limit=self._page_limit,
        )
        try:
            async with aclosing(pages):
                async for page in pages:
                    # Should pages ever differ, the oldest is the one to watch from.
                    version = version or page.resource_version
                    count += len(page.items)
                    self.health.last_heard_at = _now()
                    yield ListPage(page.items)
            if not version:
                raise Undecodable("list", "it has no resourceVersion", maybe_applied=False)
        except KubeError as error:
            self._fit_page_limit(error)
            yield ListAbandoned(error)
            raise
        self._list_due = None
        self._page_limit = self._settings.page_limit
        self.health.resource_version = version
        self.health.lists += 1
        self.health.listed = True
        self._plan_relist()
        yield ListDone(version, count)

    async def _watch(self) -> AsyncGenerator[Change, None]:
        async with self._kube.watch(
            self.kind,
            resource_version=self.health.resource_version,
            namespace=self._settings.namespace,
            label_selector=self._settings.label_selector,
            field_selector=self._settings.field_selector,
            timeout_s=self._settings.watch_timeout_s * self._rng.uniform(0.8, 1.0),
        ) as watch:
            self.health.connected = True
            self.health.watches += 1
            try:
                async with aclosing(self._follow(watch)) as followed:
                    async for change in followed:
                        yield change
            finally:
                self.health.connected = False

    async def _follow(self, watch: Watch) -> AsyncGenerator[Change, None]:
        started_at = _now()
        heard = False
        while (events := await self._read(watch)) is not None:
            if not events:
                # The normal end. One that comes at once, again and again, is a failure.
                if not heard and _now() - started_at < SHORT_WATCH_S:
                    raise Unreachable(
                        f"watch {self.kind.plural}", "it ended at once", maybe_applied=False
                    )
                return
            heard = True
            self._backoff.reset()
            self._refusals = 0
            for event in events:
                self.health.resource_version = event.resource_version
                if event.type is EventType.BOOKMARK:
                    yield Bookmark(event.resource_version)
                else:
                    yield Changed(event)

    async def _read(self, watch: Watch) -> list[WatchEvent] | None:
        """The next events, none at the end, or None when it is time to list."""
        if self._requested:
            return None
        try:
            async with asyncio.timeout_at(self._relist_at) as self._reading:
                events = await watch.read()
        except TimeoutError:
            if not self._requested:
                self._list_due = ListReason.TIMER
            return None
        finally:
            self._reading = None
        self.health.last_heard_at = _now()
        return events

    def _after(self, failure: KubeError) -> float:
        """Note the failure and what follows from it; how long to pause."""
        self.health.interruptions += 1
        self.health.last_error = failure
        if self._list_due is None:
            if _is_about_history(failure):
                self._list_due = ListReason.EXPIRED
            elif isinstance(failure, TooLarge | Undecodable):
                self._list_due = ListReason.UNREADABLE
            elif isinstance(failure, ApiError) and not isinstance(failure, TooManyRequests):
                self._refusals += 1
                if self._refusals >= STUCK_AFTER:
                    self._refusals = 0
                    self._list_due = ListReason.STUCK
        elif isinstance(failure, TooLarge) and self._page_limit > 1:
            return 0.0  # the pages have just been made smaller, which needs no patience
        asked_for_s = failure.retry_after_s if isinstance(failure, ApiError) else None
        return self._backoff.next_delay_s(at_least_s=asked_for_s)

    def _fit_page_limit(self, error: KubeError) -> None:
        """Smaller pages when one was too large; larger ones when paging took too long."""
        if isinstance(error, TooLarge):
            self._page_limit = max(1, self._page_limit // 2)
        elif isinstance(error, Gone):
            self._page_limit = min(MAX_PAGE_LIMIT, self._page_limit * 2)

    def _plan_relist(self) -> None:
        self._relist_at = _now() + self._settings.relist_every_s * self._rng.uniform(0.9, 1.1)


def _is_about_history(failure: KubeError) -> bool:
    """Whether the server can not watch from our version: forgotten, not yet there, not one."""
    return isinstance(failure, Gone | BadRequest) or (
        isinstance(failure, ApiError) and failure.has_cause("ResourceVersionTooLarge")
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
