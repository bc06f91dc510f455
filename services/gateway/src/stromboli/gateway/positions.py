"""How far STATE is complete, kind by kind: the one measure by which a view knows that it is new.

Everything that list and watch bring gets a ticket: its version, and the facts that it made. When
everything up to a version stands on STATE, that version is the kind's *position*. What made no
fact, because no field that we use changed or because it can't be put on STATE, is a ticket without
facts: nobody waits for ever for what never shows.

A position is published when it moved: at once if a write was answered with a version that views
are to wait for, and now and then otherwise. A successor watches on from it.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from stromboli.contracts.facts import KindSynced
from stromboli.runtime.clock import Clock

__all__ = ["Positions", "Ticket", "Track"]

_WANTED_EVERY_S = 0.002
_EVERY_S = 1.0


class Ticket:
    """One event, or one list, and how much of it is not on STATE yet."""

    __slots__ = ("_open", "_track", "listed", "version")

    def __init__(self, track: "Track", version: int | None) -> None:
        self._track = track
        self._open = 1
        self.version = version
        """None for a list that has not ended, or that was given up."""
        self.listed: int | None = None
        """How many objects the list had."""

    def one_more(self) -> None:
        """A fact of it is on its way."""
        self._open += 1

    def done(self) -> None:
        """A fact of it stands, or what brought it has handed over everything."""
        self._open -= 1
        if not self._open:
            self._track.advance()

    @property
    def is_done(self) -> bool:
        return not self._open


class Track:
    """The way of one kind."""

    def __init__(self, reached: int, moved: Callable[[int | None], None]) -> None:
        """`moved` is told how many objects a list had that now stands on STATE, or None."""
        self.reached = reached
        self._moved = moved
        self._tickets: deque[Ticket] = deque()

    def event(self, version: int) -> Ticket:
        """Something with this version is being written to STATE."""
        return self._new(version)

    def begin_list(self) -> Ticket:
        """A list began; nothing moves until it has ended."""
        return self._new(None)

    def end_list(self, ticket: Ticket, version: int, count: int) -> None:
        """The list is complete up to this version, and its facts are on their way.

        The version may be lower than where we were: then the API server was restored.
        """
        ticket.version, ticket.listed = version, count
        ticket.done()

    def _new(self, version: int | None) -> Ticket:
        ticket = Ticket(self, version)
        self._tickets.append(ticket)
        return ticket

    def advance(self) -> None:
        while self._tickets and self._tickets[0].is_done:
            ticket = self._tickets.popleft()
            if ticket.version is not None:
                self.reached = ticket.version
                self._moved(ticket.listed)


@dataclass(slots=True)
class _Kind:
    """What is known of one kind, and what was told of it."""

    track: Track
    count: int
    announced: int
    wanted: int = 0
    """The highest version that somebody waits for."""
    told_at: float = -math.inf

    @property
    def has_moved(self) -> bool:
        return self.track.reached != self.announced

    @property
    def due_at(self) -> float:
        is_wanted = self.wanted > self.announced
        return self.told_at + (_WANTED_EVERY_S if is_wanted else _EVERY_S)


_NOT_ANNOUNCED = -1


@dataclass(slots=True)
class Positions:
    """The positions of all kinds, and their publication. Used from one event loop."""

    clock: Clock
    _kinds: dict[str, _Kind] = field(default_factory=dict[str, _Kind])
    _moved: set[str] = field(default_factory=set[str])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def follow(self, kind: str, known: KindSynced | None) -> Track:
        """Begin with what stands on STATE, if a watch goes on from there."""
        reached = 0 if known is None else int(known.resource_version)
        announced = _NOT_ANNOUNCED if known is None else reached
        track = Track(reached, lambda listed: self._note(kind, listed))
        self._kinds[kind] = _Kind(track, 0 if known is None else known.count, announced)
        return track

    def reached(self, kind: str) -> int:
        return self._kinds[kind].track.reached

    def is_not_served(self, kind: str) -> None:
        """The cluster does without this kind: that there is nothing of it is known."""
        self._note(kind, 0)

    def announce(self, kind: str, version: str) -> None:
        """Views are going to wait for this version of a kind."""
        known = self._kinds.get(kind)
        if known is not None:
            known.wanted = max(known.wanted, int(version))
            self._note(kind)

    def _note(self, kind: str, listed: int | None = None) -> None:
        known = self._kinds[kind]
        if listed is not None:  # told even if no version is new: absence means absence now
            known.count, known.announced = listed, _NOT_ANNOUNCED
        if known.has_moved:
            self._moved.add(kind)
            self._news.set()

    # Publishing.

    async def wait_until_due(self) -> list[tuple[str, int, int]]:
        """Kinds with position and count, once there are any to publish; they count as told."""
        while True:
            now = self.clock.monotonic()
            due = [kind for kind in self._moved if self._kinds[kind].due_at <= now]
            if due:
                return [self._tell(kind, now) for kind in sorted(due)]
            self._news.clear()
            soonest = min((self._kinds[kind].due_at for kind in self._moved), default=math.inf)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if soonest == math.inf else soonest - now):
                    await self._news.wait()

    def _tell(self, kind: str, now: float) -> tuple[str, int, int]:
        known = self._kinds[kind]
        known.announced, known.told_at = known.track.reached, now
        self._moved.discard(kind)
        return kind, known.announced, known.count
