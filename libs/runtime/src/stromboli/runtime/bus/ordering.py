"""Which delivered intent may be worked on next: in order per key, in parallel across keys.

Pure, so that a model can drive it. INTENT delivers in order; this keeps one line per key
and hands out the head of a line only when nothing of that key is being worked on, with three
additions:

- what one sender wants done in a row, of the same sort and each to another object (the pods
  of a job created, or deleted), has no order: it is handed out side by side, a few at a
  time. What comes behind such a run waits for all of it;
- the parts of a gang are handed out together, or not at all until the last one has come;
  what other senders want for the same key waits behind them;
- a fence is a barrier for its own sender: it is handed out when everything that this sender
  asked for before it has ended, and nothing that this sender asks for behind it starts before
  the fence itself has ended. Other senders pass by.

A delivery, or an end, touches one key, and only that key is looked at: the work per message
does not grow with how much waits. A redelivery of something that is still here is recognised
by its stream sequence.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

Sender = tuple[str, str]
"""Service and shard. One leader at a time speaks for them, and its fence is about them."""

AT_ONCE = 16
"""Of one key, so that a large job leaves room for others."""


@dataclass(slots=True, frozen=True)
class Run:
    """This item has no order among its neighbours of the same sort about other objects."""

    sort: str
    place: str
    """The object that it is about: two items about one object keep their order."""


@dataclass(slots=True, frozen=True)
class Parts:
    """This item is one of `total`, which belong together as `group`."""

    group: str
    index: int
    total: int


@dataclass(slots=True)
class Item(Generic[T]):
    """A delivered message and where it stands."""

    sequence: int
    key: str
    payload: T
    deadline: float
    parts: Parts | None = None
    sender: Sender = ("", "")
    run: Run | None = None
    is_fence: bool = False

    def may_go_beside(self, other: "Item[T]") -> bool:
        if self.run is None or other.run is None or self.sender != other.sender:
            return False
        return self.run.sort == other.run.sort and self.run.place != other.run.place


@dataclass(slots=True, eq=False)
class Batch(Generic[T]):
    """What to work on now: one item, or the parts of one gang."""

    key: str
    items: list[Item[T]]
    complete: bool = True
    """False when parts are missing and will not come in time."""


@dataclass(slots=True, eq=False)
class _Gang(Generic[T]):
    """The parts that have come of the gang at the head of a line."""

    sender: Sender
    parts: Parts
    ticket: int
    items: list[Item[T]] = field(default_factory=list)
    indexes: set[int] = field(default_factory=set[int])
    is_sound: bool = True
    """False once a part has come that can't exist: such a gang is never complete."""
    is_hopeless: bool = False
    """The missing parts will not come, or not in time."""

    @property
    def is_complete(self) -> bool:
        # `total` is a sender's claim: counting up to it would be a trap.
        return self.is_sound and len(self.indexes) == self.parts.total

    @property
    def is_ready(self) -> bool:
        return self.is_complete or self.is_hopeless

    def takes(self, item: Item[T]) -> bool:
        """Is it one of the missing parts?

        A sender speaks in order: when it has gone on, the missing parts will not come, and one
        that comes nevertheless must not overtake what was sent before it.
        """
        if item.sender != self.sender:
            return False
        if item.parts is None or item.parts.group != self.parts.group:
            self.is_hopeless = True
            return False
        self.items.append(item)
        self.indexes.add(item.parts.index)
        self.is_sound = self.is_sound and 0 <= item.parts.index < self.parts.total
        return True


@dataclass(slots=True, eq=False)
class _Line(Generic[T]):
    """What is wanted for one key."""

    key: str
    waiting: deque[Item[T]] = field(default_factory=deque)
    gang: _Gang[T] | None = None
    """It stands before everything that waits, and nothing is busy beside it."""
    busy: list[Batch[T]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.waiting and self.gang is None and not self.busy

    def append(self, item: Item[T]) -> None:
        if self.gang is None or not self.gang.takes(item):
            self.waiting.append(item)

    def has_room_for(self, item: Item[T]) -> bool:
        if len(self.busy) >= AT_ONCE:
            return False
        return all(item.may_go_beside(other) for batch in self.busy for other in batch.items)

    def gather(self, parts: Parts, ticket: int) -> _Gang[T]:
        """Take the gang that begins here out of the line, as far as it has come.

        Looks no further than to where its sender goes on. It passes by what other senders want,
        so each item is looked at as often as there are senders, at most.
        """
        gang: _Gang[T] = _Gang(self.waiting[0].sender, parts, ticket)
        others: list[Item[T]] = []
        while self.waiting and not gang.is_ready:
            item = self.waiting.popleft()
            if not gang.takes(item):
                others.append(item)
        self.waiting.extendleft(reversed(others))
        self.gang = gang
        return gang


@dataclass(slots=True, eq=False)
class _Asked(Generic[T]):
    """What one sender has asked for and what has not ended."""

    before: int = 0
    """How many items there are, without the fence and what is behind it."""
    incomplete: dict[str, _Line[T]] = field(default_factory=dict)
    """Lines, by key, at whose head a gang of this sender waits for its parts."""
    fence: Item[T] | None = None
    behind: deque[Item[T]] = field(default_factory=deque)


@dataclass(slots=True)
class KeyedQueue(Generic[T]):
    """The order of INTENT. What a method returns counts as busy until `finish`."""

    _here: dict[int, Item[T]] = field(default_factory=dict)
    _lines: dict[str, _Line[T]] = field(default_factory=dict)
    _asked: dict[Sender, _Asked[T]] = field(default_factory=dict)
    _deadlines: list[tuple[float, int, str]] = field(default_factory=list[tuple[float, int, str]])
    """A heap of deadline, ticket and key. The entry of a gang outlives it until its time."""
    _tickets: Iterator[int] = field(default_factory=itertools.count)
    """The ticket tells one gang of a key from the next."""

    def __len__(self) -> int:
        return len(self._here)

    def accept(self, item: Item[T]) -> list[Batch[T]]:
        """Take a delivery, unless it is here already; hand out what it made ready."""
        if item.sequence in self._here:
            return []
        self._here[item.sequence] = item
        asked = self._asked.setdefault(item.sender, _Asked())
        if asked.fence is not None:
            asked.behind.append(item)
            return []
        return self._admit(asked, item)

    def finish(self, batch: Batch[T]) -> list[Batch[T]]:
        """The batch has ended: its messages are acknowledged. Hand out what waited for it."""
        for item in batch.items:
            del self._here[item.sequence]
        sender = batch.items[0].sender
        asked = self._asked[sender]
        if batch.items[0].is_fence:
            batches = self._lower_fence(asked)
        else:
            batches = self._free(self._lines[batch.key], batch)
            asked.before -= len(batch.items)
            batches += self._fence_if_due(asked)
        if not asked.before and asked.fence is None:
            del self._asked[sender]
        return batches

    def overdue(self, now: float) -> list[Batch[T]]:
        """Hand out the gangs that have waited long enough for their parts."""
        batches: list[Batch[T]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, ticket, key = heapq.heappop(self._deadlines)
            line = self._lines.get(key)
            if line is not None and line.gang is not None and line.gang.ticket == ticket:
                batches += self._give_up(line, line.gang)
        return batches

    # Fences.

    def _admit(self, asked: _Asked[T], item: Item[T]) -> list[Batch[T]]:
        """No fence of its sender stands before this item."""
        if item.is_fence:
            return self._raise_fence(asked, item)
        asked.before += 1
        line = self._lines.setdefault(item.key, _Line(item.key))
        line.append(item)
        return self._advance(line)

    def _raise_fence(self, asked: _Asked[T], fence: Item[T]) -> list[Batch[T]]:
        asked.fence = fence
        batches: list[Batch[T]] = []
        for line in tuple(asked.incomplete.values()):
            if line.gang is not None:
                batches += self._give_up(line, line.gang)
        return batches + self._fence_if_due(asked)

    def _fence_if_due(self, asked: _Asked[T]) -> list[Batch[T]]:
        if asked.fence is None or asked.before:
            return []
        return [Batch(asked.fence.key, [asked.fence])]

    def _lower_fence(self, asked: _Asked[T]) -> list[Batch[T]]:
        asked.fence = None
        batches: list[Batch[T]] = []
        while asked.behind and asked.fence is None:
            batches += self._admit(asked, asked.behind.popleft())
        return batches

    # One key.

    def _free(self, line: _Line[T], ended: Batch[T]) -> list[Batch[T]]:
        line.busy.remove(ended)
        batches = self._advance(line)
        if line.is_empty:
            del self._lines[line.key]
        return batches

    def _advance(self, line: _Line[T]) -> list[Batch[T]]:
        """Hand out everything of this key that may be worked on now."""
        batches: list[Batch[T]] = []
        while (batch := self._head(line)) is not None:
            line.busy.append(batch)
            batches.append(batch)
        return batches

    def _head(self, line: _Line[T]) -> Batch[T] | None:
        if line.gang is not None:
            return self._whole(line, line.gang)
        if not line.waiting or not line.has_room_for(line.waiting[0]):
            return None
        parts = line.waiting[0].parts
        if parts is None:
            return Batch(line.key, [line.waiting.popleft()])
        return self._whole(line, self._gather(line, parts))

    # Gangs.

    def _gather(self, line: _Line[T], parts: Parts) -> _Gang[T]:
        gang = line.gather(parts, next(self._tickets))
        asked = self._asked[gang.sender]
        if asked.fence is not None:
            gang.is_hopeless = True
        if not gang.is_ready:
            asked.incomplete[line.key] = line
            deadline = gang.items[0].deadline
            # A deadline that is not a number would never be over, nor let another be.
            due = deadline if deadline >= 0 else 0.0
            heapq.heappush(self._deadlines, (due, gang.ticket, line.key))
        return gang

    def _whole(self, line: _Line[T], gang: _Gang[T]) -> Batch[T] | None:
        if not gang.is_ready:
            return None
        line.gang = None
        self._asked[gang.sender].incomplete.pop(line.key, None)
        return Batch(line.key, gang.items, complete=gang.is_complete)

    def _give_up(self, line: _Line[T], gang: _Gang[T]) -> list[Batch[T]]:
        gang.is_hopeless = True
        return self._advance(line)
