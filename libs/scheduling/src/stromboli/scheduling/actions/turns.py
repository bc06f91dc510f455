"""Whose turn it is: the first queue by its order, and in it the first job by its own.

Of equal queues the one comes first that stays within what it deserves.
Jobs that must not wait (`session.first`) come before all queues. Where no plugin prefers a
queue, the first job of all queues has the turn. A job may come back for another turn; its place
in the order is then found anew. A queue may leave for the rest of the cycle. After every turn
others may join that only wait for what came of it.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Claim, SortKey
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.session import Session

__all__ = ["Turn", "Turns", "behind_others"]

_Waiting: TypeAlias = tuple[SortKey, Contender]

_FIRST = "/first"
_ALL = "/all"
"""Lines that are no queue's; a queue's name has no slash."""

_CLOSE: Final = 3
"""So many parts of what the first plugin says are compared before anything else."""


class Turn(NamedTuple):
    """One that was taken."""

    contender: Contender
    order: SortKey
    """The job's, as it was then."""
    mark: int
    """The trial's."""
    queue: str | None
    """Whose jobs stood in line for it; None: those of all queues."""


class _Line:
    """Jobs in the order of their turns: those that came first are sorted once."""

    __slots__ = ("_came_back", "_first")

    def __init__(self) -> None:
        self._first: list[_Waiting] = []
        """The next one is the last."""
        self._came_back: list[_Waiting] = []
        """A heap."""

    def __len__(self) -> int:
        return len(self._first) + len(self._came_back)

    def begin(self, order: SortKey, contender: Contender) -> None:
        self._first.append((order, contender))

    def put_in_order(self) -> None:
        self._first.sort(reverse=True)

    def come_back(self, order: SortKey, contender: Contender) -> None:
        heapq.heappush(self._came_back, (order, contender))

    @property
    def head(self) -> _Waiting:
        if self._first and (not self._came_back or self._first[-1] < self._came_back[0]):
            return self._first[-1]
        return self._came_back[0]

    def pop(self) -> Contender:
        if self._first and (not self._came_back or self._first[-1] < self._came_back[0]):
            return self._first.pop()[1]
        return heapq.heappop(self._came_back)[1]

    def pop_while(self, wanted: Callable[[Contender], bool], most: int) -> list[Contender]:
        """The next ones, none of whom came back."""
        found: list[Contender] = []
        while self._first and len(found) < most and not self._came_back:
            if not wanted(self._first[-1][1]):
                break
            found.append(self._first.pop()[1])
        return found

    def all(self) -> list[Contender]:
        return [contender for _, contender in sorted((*self._first, *self._came_back))]


class Turns:
    """Jobs that still want a turn in this cycle."""

    def __init__(
        self,
        session: Session,
        contenders: Iterable[Contender],
        others: Callable[[Turn], Iterable[Contender]] | None = None,
    ) -> None:
        """`others`: who joins because of a turn."""
        self._session = session
        self._others = others
        self._taken: Turn | None = None
        self._by_queue: dict[str, _Line] = {}
        # A queue that may have to leave needs a line of its own.
        self._apart = bool(
            session.panel.queue_order
            or session.panel.watches_overuse
            or any(queue.strict_order for queue in session.queues.values())
        )
        self._orders_are_own = session.panel.orders_are_own
        for contender in contenders:
            line = self._by_queue.setdefault(self._line(contender), _Line())
            line.begin(session.job_order(contender), contender)
        for line in self._by_queue.values():
            line.put_in_order()

    def push(self, contender: Contender) -> None:
        line = self._by_queue.setdefault(self._line(contender), _Line())
        line.come_back(self._session.job_order(contender), contender)

    def pop(self) -> Contender | None:
        if self._taken is not None and self._others is not None:
            for contender in self._others(self._taken):
                self.push(contender)
        contender = self._pop()
        reserve = self._session.reserve
        self._taken = None
        if contender is not None and reserve is not None and not reserve.is_empty:
            self._taken = Turn(
                contender,
                self._session.job_order(contender),
                self._session.trial.checkpoint(),
                contender.queue if self._apart else None,
            )
        return contender

    def _pop(self) -> Contender | None:
        name = self._next_line()
        if name is None:
            return None
        line = self._by_queue[name]
        contender = line.pop()
        while line and self._may_have_moved:
            order = self._session.job_order(contender)
            if order <= line.head[0]:
                break
            line.come_back(order, contender)
            contender = line.pop()
        if not line:
            del self._by_queue[name]
        return contender

    def followers(
        self, contender: Contender, wanted: Callable[[Contender], bool], most: int
    ) -> list[Contender]:
        """Who of these has the next turns whatever comes of this one; they leave the line."""
        name = self._line(contender)
        line = self._by_queue.get(name)
        if line is None or len(self._by_queue) > 1 or self._may_have_moved:
            return []
        found = line.pop_while(wanted, most)
        if not line:
            del self._by_queue[name]
        return found

    @property
    def _may_have_moved(self) -> bool:
        """Whether what others placed may have put a job behind them, or cost it some pods."""
        return not self._orders_are_own or bool(self._session.trial.evicted)

    @property
    def nobody_waits(self) -> bool:
        return not self._by_queue

    def leave(self, contender: Contender) -> list[Contender]:
        """The job's queue has no more turns; who had wanted one."""
        if not self._apart:
            return []
        line = self._by_queue.pop(contender.queue, None)
        return line.all() if line is not None else []

    def _line(self, contender: Contender) -> str:
        if contender.key in self._session.first:
            return _FIRST
        return contender.queue if self._apart else _ALL

    def _next_line(self) -> str | None:
        if len(self._by_queue) <= 1:
            return next(iter(self._by_queue), None)
        if _FIRST in self._by_queue:
            return _FIRST
        orders = [self._session.queue_order_of(name) for name in self._by_queue]
        first = min(orders)
        if self._session.panel.knows_due:
            first = self._first_due(orders, first)
        return first[-1]

    def _first_due(self, orders: list[SortKey], first: SortKey) -> SortKey:
        """Of the queues that only age or name put behind the first; each order ends in the name."""
        begins = first[0][:_CLOSE]  # most are not equal, and that is soon found out
        equals = [order for order in orders if order[0][:_CLOSE] == begins]
        if len(equals) > 1:
            equals.sort()
            for order in equals:
                if _is_equal(order, first) and self._is_due(order[-1]):
                    return order
        return first

    def _is_due(self, name: str) -> bool:
        """Whether the queue stays within what it deserves with what its next job needs.

        What goes beyond it would be taken back for the others.
        """
        contender = self._by_queue[name].head[1]
        needed = tuple(contender.waiting[: max(1, contender.deficit)])
        queue = self._session.queues[name]
        return not needed or self._session.panel.preemptive(queue, Claim(contender, needed))


def _is_equal(one: SortKey, other: SortKey) -> bool:
    """Whether only their ages, or names, put these queues in an order."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return _is_equal(mine, theirs) if isinstance(mine, tuple) else isinstance(mine, str)
    return True


def behind_others(session: Session) -> dict[JobKey, Contender]:
    """Who stands, in a queue of strict order, behind a job that has to wait; and behind whom."""
    lines: dict[str, list[Contender]] = {}
    strict = {name for name, queue in session.queues.items() if queue.strict_order}
    for contender in session.contenders.values() if strict else ():
        if contender.queue in strict and contender.phase != PodGroupPhase.PENDING:
            lines.setdefault(contender.queue, []).append(contender)
    found: dict[JobKey, Contender] = {}
    for line in lines.values():
        head: Contender | None = None
        for contender in sorted(line, key=session.job_order):
            if head is not None and contender.key not in session.first:
                found[contender.key] = head
            if head is None and _holds_up(session, contender):
                head = contender
    return found


def _holds_up(session: Session, contender: Contender) -> bool:
    return (
        bool(contender.waiting)
        and not session.panel.is_ready(contender)
        and session.panel.invalid(contender) is None
    )
