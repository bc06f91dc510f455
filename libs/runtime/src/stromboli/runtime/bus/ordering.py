"""Which delivered intent may be worked on next: in order per key, in parallel across keys.

Pure, so that a model can drive it. A partition delivers in order; this keeps one queue per
key and hands out the head of a queue only when nothing of that key is being worked on, with
three additions:

- what one sender wants done in a row, of the same sort and each to another object (the pods
  of a job created, or deleted), has no order: it is handed out side by side, a few at a
  time. What comes behind such a run waits for all of it;
- the parts of a gang are handed out together, or not at all until the last one has come;
  what other senders want for the same key waits behind them;
- a fence is a barrier: it is handed out when everything before it has ended, and nothing
  behind it starts before the fence itself has ended.

A redelivery of something that is still here is recognised by its stream sequence.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

BARRIER = ""
"""The key of a fence."""


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
    sender: str = ""
    run: Run | None = None

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


@dataclass(slots=True)
class KeyedQueue(Generic[T]):
    """The order of one partition."""

    _queues: dict[str, deque[Item[T]]] = field(default_factory=dict)
    _busy: dict[str, list[Batch[T]]] = field(default_factory=dict)
    _sequences: set[int] = field(default_factory=set)
    _behind_barrier: deque[Item[T]] = field(default_factory=deque)
    _barrier: Item[T] | None = None

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def items(self) -> Iterable[Item[T]]:
        """Everything that is here and has not ended, in no particular order."""
        for batches in self._busy.values():
            for batch in batches:
                yield from batch.items
        for queue in self._queues.values():
            yield from queue
        if self._barrier is not None and BARRIER not in self._busy:
            yield self._barrier
        yield from self._behind_barrier

    def accept(self, item: Item[T]) -> bool:
        """Take a delivery; False if it is here already."""
        if item.sequence in self._sequences:
            return False
        self._sequences.add(item.sequence)
        if self._barrier is not None:
            self._behind_barrier.append(item)
        else:
            self._enqueue(item)
        return True

    def _enqueue(self, item: Item[T]) -> None:
        if item.key == BARRIER:
            self._barrier = item
        else:
            self._queues.setdefault(item.key, deque()).append(item)

    def ready(self, now: float) -> list[Batch[T]]:
        """Hand out everything that may be worked on now; it counts as busy from here on."""
        batches: list[Batch[T]] = []
        for key in tuple(self._queues):
            while (batch := self._head(key, now)) is not None:
                self._busy.setdefault(key, []).append(batch)
                batches.append(batch)
        barrier = self._barrier
        if barrier is not None and not self._queues and not self._busy:
            batch = Batch(BARRIER, [barrier])
            self._busy[BARRIER] = [batch]
            batches.append(batch)
        return batches

    def _head(self, key: str, now: float) -> Batch[T] | None:
        queue = self._queues.get(key)
        if queue is None:
            return None
        first = queue[0]
        busy = self._busy.get(key, ())
        if len(busy) >= AT_ONCE:
            return None
        if not all(first.may_go_beside(item) for batch in busy for item in batch.items):
            return None
        if first.parts is None:
            return Batch(key, [self._take(key)])
        group: list[Item[T]] = []
        others: deque[Item[T]] = deque()
        # A sender speaks in order: when it has gone on, the missing parts will not come, and
        # one that comes nevertheless must not overtake what was sent before it.
        has_gone_on = False
        for item in queue:
            same_sender = item.sender == first.sender
            belongs = item.parts is not None and item.parts.group == first.parts.group
            if same_sender and belongs and not has_gone_on:
                group.append(item)
            else:
                others.append(item)
                has_gone_on = has_gone_on or same_sender
        complete = _is_complete({i.parts.index for i in group if i.parts}, first.parts.total)
        # Asked this way round, a deadline that is not a number is over, not endless.
        waits = now < first.deadline and not has_gone_on and self._barrier is None
        if complete or not waits:
            if others:
                self._queues[key] = others
            else:
                del self._queues[key]
            return Batch(key, group, complete=complete)
        return None

    def _take(self, key: str) -> Item[T]:
        queue = self._queues[key]
        item = queue.popleft()
        if not queue:
            del self._queues[key]
        return item

    def finish(self, batch: Batch[T]) -> None:
        """The batch has ended: its messages are acknowledged, its place is free."""
        busy = self._busy[batch.key]
        busy.remove(batch)
        if not busy:
            del self._busy[batch.key]
        for item in batch.items:
            self._sequences.discard(item.sequence)
        if batch.key == BARRIER:
            self._barrier = None
            while self._behind_barrier and self._barrier is None:
                self._enqueue(self._behind_barrier.popleft())

    def next_deadline(self) -> float | None:
        """When an incomplete gang stops waiting for its parts."""
        waiting = [
            q[0].deadline for k, q in self._queues.items() if q[0].parts and k not in self._busy
        ]
        return min(waiting, default=None)


def _is_complete(indexes: set[int], total: int) -> bool:
    """Is every part here? `total` is a sender's claim: counting up to it would be a trap."""
    return len(indexes) == total and all(0 <= index < total for index in indexes)
