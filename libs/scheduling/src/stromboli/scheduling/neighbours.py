"""Who stands where, as far as other pods care: counts per node of the pods that a term picks.

`Neighbourhood` is kept fact by fact, and only once somebody cares: a cluster in which no pod has
such a constraint pays nothing. `Neighbours` is one cycle's view of it: arrays over nodes, with
what the cycle has placed and evicted so far counted in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import numpy as np

from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.pods import Task, TaskClass, TaskStatus
from stromboli.scheduling.resources import BoolPerNode, FloatPerNode, IntVector
from stromboli.scheduling.slim_pods import packed_label
from stromboli.scheduling.social import ANY_ADDRESS, NamespaceLabels, Port, Term
from stromboli.scheduling.term_index import TermIndex
from stromboli.scheduling.volumes import Move

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["Domains", "Neighbourhood", "Neighbours", "conflict"]

PerNode: TypeAlias = dict[str, int]
"""Node → how many; nodes without any are absent."""

_MOST_COUNTED: Final = 4096


@dataclass(frozen=True, slots=True)
class _Counted:
    """A question about pods that stand on nodes: those a term picks, or those that hold it."""

    term: Term
    skip_ending: bool = False

    def counts(self, task: Task) -> bool:
        """Of one that the term picks."""
        return not self.skip_ending or task.status is not TaskStatus.RELEASING


K = TypeVar("K")


class _Book(Generic[K]):
    """Terms that pods hold, and where these stand."""

    def __init__(self) -> None:
        self._where: dict[K, PerNode] = {}
        self._index: TermIndex[K] = TermIndex()

    def note(self, key: K, term: Term, node: str, change: int) -> None:
        if key not in self._where:
            self._index.put(key, term)
        _note(self._where, key, node, change)
        if key not in self._where:
            self._index.drop(key, term)

    def expect(self, key: K, term: Term) -> None:
        """Somebody in this cycle holds it."""
        if key not in self._where:
            self._where[key] = {}
            self._index.put(key, term)

    def where(self, key: K) -> PerNode | None:
        return self._where.get(key)

    def picking(self, task: Task, namespaces: NamespaceLabels) -> Iterator[K]:
        """Of the terms, those that pick this pod."""
        if not self._where:
            return iter(())
        return self._index.picking(task.namespace, task.labels, namespaces)


@dataclass(slots=True)
class Neighbourhood:
    """All pods that stand on nodes, and the answers that are kept about them."""

    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Their labels, by name."""
    is_active: bool = False
    _standing: dict[str, Task] = field(default_factory=dict[str, Task])
    _matching: dict[_Counted, PerNode] = field(default_factory=dict[_Counted, PerNode])
    _questions: TermIndex[_Counted] = field(default_factory=TermIndex[_Counted])
    apart: _Book[Term] = field(default_factory=_Book[Term])
    """Where those stand that want none of these near."""
    likes: _Book[tuple[int, Term]] = field(default_factory=_Book[tuple[int, Term]])
    """Where those stand that would like these near, or with a weight below 0 would not."""
    _ports: dict[Port, PerNode] = field(default_factory=dict[Port, PerNode])

    def activate(self, tasks: Iterable[Task]) -> None:
        """Somebody cares: from here on everybody is counted."""
        self.is_active = True
        for task in tasks:
            self.stands(task)

    def namespace_is(self, name: str, labels: Mapping[str, str] | None) -> None:
        """What a selector of namespaces picks may have changed, so all is counted anew."""
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self._forget_answers()

    def stands(self, task: Task) -> None:
        """The task is as it is: on a node, or not (any more)."""
        if not self.is_active:
            return
        before = self._standing.pop(task.uid, None)
        if before is not None:
            self._count(before, -1)
        if task.takes_room:
            self._standing[task.uid] = task
            self._count(task, 1)

    def left(self, uid: str) -> None:
        before = self._standing.pop(uid, None)
        if before is not None:
            self._count(before, -1)

    # Answers.

    def matching(self, term: Term, *, skip_ending: bool) -> PerNode:
        """How many pods the term picks on each node; counted once, then kept."""
        question = _Counted(term, skip_ending)
        found = self._matching.get(question)
        if found is None:
            if len(self._matching) >= _MOST_COUNTED:
                self._forget_answers()
            found = self._matching[question] = {}
            self._questions.put(question, term)
            for task in self._standing.values():
                if question.counts(task) and self.picks(term, task):
                    _add(found, task.node, 1)
        return found

    def _forget_answers(self) -> None:
        self._matching.clear()
        self._questions.clear()

    def picks(self, term: Term, task: Task) -> bool:
        asked = term.selector.labels
        if asked and packed_label(*asked[0]) not in task.packed_labels:
            return False  # most are not; their labels need not be read
        return term.matches(task.namespace, task.labels, self.namespaces)

    def using(self, port: Port) -> PerNode:
        """Where a port is taken."""
        found: PerNode = {}
        for other, where in self._ports.items():
            if conflict(port, other):
                for node, number in where.items():
                    _add(found, node, number)
        return found

    # Counting.

    def _count(self, task: Task, sign: int) -> None:
        if self._matching:
            for question in self._questions.picking(task.namespace, task.labels, self.namespaces):
                if question.counts(task):
                    _add(self._matching[question], task.node, sign)
        social = task.kind.social
        if social is not None:
            for term in social.apart:
                self.apart.note(term, term, task.node, sign)
            for like in social.all_likes:
                self.likes.note(like, like[1], task.node, sign)
            for port in social.ports:
                _note(self._ports, port, task.node, sign)


def _note(book: dict[K, PerNode], key: K, node: str, change: int) -> None:
    where = book.setdefault(key, {})
    _add(where, node, change)
    if not where:
        del book[key]


def _add(found: PerNode, node: str, change: int) -> None:
    number = found.get(node, 0) + change
    if number:
        found[node] = number
    else:
        found.pop(node, None)


@dataclass(slots=True)
class _Tally:
    """Counts per node, and how many of the cycle's moves are in them."""

    counts: IntVector
    seen: int = 0


class Neighbours:
    """One cycle's view, with its own placements and evictions counted in."""

    def __init__(self, neighbourhood: Neighbourhood, nodes: NodeTable, domains: "Domains") -> None:
        self._base = neighbourhood
        self._nodes = nodes
        self._domains = domains
        self.moves: list[Move] = []
        """What the cycle did, as far as anybody could care."""
        self._tallies: dict[object, _Tally] = {}
        self._apart: _Book[Term] = _Book()
        self._likes: _Book[tuple[int, Term]] = _Book()
        """Terms that the moved ones hold."""

    # The trial tells.

    def placed(self, placement: "Placement") -> None:
        self._moved(placement.kind, zip(placement.tasks, placement.slots.tolist(), strict=True), 1)

    def withdrawn(self, placement: "Placement") -> None:
        self._moved(placement.kind, zip(placement.tasks, placement.slots.tolist(), strict=True), -1)

    def evicted(self, eviction: "Eviction") -> None:
        self._moved(eviction.task.kind, [(eviction.task, eviction.slot)], -1)

    def restored(self, eviction: "Eviction") -> None:
        self._moved(eviction.task.kind, [(eviction.task, eviction.slot)], 1)

    def _moved(self, kind: TaskClass, who: Iterable[tuple[Task, int]], sign: int) -> None:
        if not self._base.is_active and not kind.claims:
            return
        for task, slot in who:
            self.moves.append((task, slot, sign))
            social = task.kind.social
            if social is not None:
                for term in social.apart:
                    self._apart.expect(term, term)
                for like in social.all_likes:
                    self._likes.expect(like, like[1])

    # Who is concerned.

    def concerns(self, task: Task) -> bool:
        """Whether it matters for this pod who else is where."""
        if task.kind.social is not None or task.kind.claims:
            return True
        if not self._base.is_active:
            return False
        return next(self._feared_by(task), None) is not None or (
            next(self._liked_by(task), None) is not None
        )

    def concern_any(self, tasks: Sequence[Task]) -> bool:
        """For tasks of one class; almost always nobody cares."""
        kind = tasks[0].kind
        if not self._base.is_active and kind.social is None and not kind.claims:
            return False
        return any(self.concerns(task) for task in tasks)

    def picks(self, term: Term, task: Task) -> bool:
        return self._base.picks(term, task)

    def _feared_by(self, task: Task) -> Iterator[Term]:
        """The terms by which others want this pod to stay away; one may be named twice."""
        known = self._base.namespaces
        return chain(self._base.apart.picking(task, known), self._apart.picking(task, known))

    def _liked_by(self, task: Task) -> Iterator[tuple[int, Term]]:
        known = self._base.namespaces
        return chain(self._base.likes.picking(task, known), self._likes.picking(task, known))

    # Arrays over nodes.

    @property
    def width(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def picked(self, term: Term, *, skip_ending: bool = False) -> IntVector:
        """How many pods on each node the term picks."""
        return self._tally(
            ("picked", term, skip_ending),
            lambda: self._base.matching(term, skip_ending=skip_ending),
            lambda task: self.picks(term, task),
        )

    def unwelcoming(self, task: Task) -> BoolPerNode:
        """Nodes near which somebody stands who does not want this pod there."""
        found = np.zeros(len(self._nodes), dtype=np.bool_)
        for term in dict.fromkeys(self._feared_by(task)):
            counts = self._tally(
                ("apart", term),
                lambda term=term: self._base.apart.where(term) or {},
                partial(_holds_apart, term),
            )
            found |= self.in_domain(term.topology, counts) > 0
        return found

    def admiration(self, task: Task) -> FloatPerNode:
        """How much those who stand near each node like this pod, summed."""
        total = np.zeros(len(self._nodes))
        for like in dict.fromkeys(self._liked_by(task)):
            weight, term = like
            counts = self._tally(
                ("likes", like),
                lambda like=like: self._base.likes.where(like) or {},
                partial(_likes, like),
            )
            total += weight * self.in_domain(term.topology, counts)
        return total

    def taken(self, port: Port) -> BoolPerNode:
        """Nodes on which this port is not free."""
        counts = self._tally(
            ("port", port),
            lambda: self._base.using(port),
            lambda task: any(conflict(port, other) for other in _ports_of(task)),
        )
        return counts > 0

    def in_domain(self, topology: str, counts: IntVector) -> IntVector:
        """For each node the sum over its domain; 0 for nodes that are in none."""
        codes, number = self.codes(topology)
        inside = codes >= 0
        sums = np.bincount(codes[inside], weights=counts[inside], minlength=max(number, 1))
        return np.where(inside, sums[np.maximum(codes, 0)], 0).astype(np.int64)

    def codes(self, topology: str) -> tuple[IntVector, int]:
        """The domain of each node as a number, -1 for none; and how many there are."""
        return self._domains.codes(topology, self._nodes)

    def _tally(
        self, key: object, base: Callable[[], PerNode], counts_in: Callable[[Task], bool]
    ) -> IntVector:
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally(self._array(base()))
        for task, slot, sign in self.moves[tally.seen :]:
            if counts_in(task):
                tally.counts[slot] += sign
        tally.seen = len(self.moves)
        return tally.counts

    def _array(self, where: PerNode) -> IntVector:
        counts = np.zeros(len(self._nodes), dtype=np.int64)
        for node, number in where.items():
            slot = self._nodes.slot(node)
            if slot is not None:
                counts[slot] += number
        return counts


def _holds_apart(term: Term, task: Task) -> bool:
    return task.kind.social is not None and term in task.kind.social.apart


def _likes(like: tuple[int, Term], task: Task) -> bool:
    return task.kind.social is not None and like in task.kind.social.all_likes


def _ports_of(task: Task) -> tuple[Port, ...]:
    return task.kind.social.ports if task.kind.social is not None else ()


def conflict(one: Port, other: Port) -> bool:
    """An address that means "all of them" conflicts with every other."""
    return one[:2] == other[:2] and (one[2] == other[2] or ANY_ADDRESS in {one[2], other[2]})


@dataclass(slots=True)
class Domains:
    """Which nodes have the same value of a label; kept until nodes change."""

    _known: dict[str, tuple[tuple[int, int], IntVector, int]] = field(
        default_factory=dict[str, tuple[tuple[int, int], IntVector, int]]
    )

    def codes(self, topology: str, nodes: NodeTable) -> tuple[IntVector, int]:
        state = (nodes.layout, nodes.version)
        known = self._known.get(topology)
        if known is None or known[0] != state:
            numbers: dict[str, int] = {}
            codes = np.fromiter(
                (
                    -1
                    if (value := dict(node.labels).get(topology)) is None
                    else numbers.setdefault(value, len(numbers))
                    for node in nodes.facts
                ),
                np.int64,
                len(nodes),
            )
            known = self._known[topology] = (state, codes, len(numbers))
        return known[1], known[2]
