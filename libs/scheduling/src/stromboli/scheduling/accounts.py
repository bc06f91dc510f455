"""What the jobs of each queue hold, want and were promised: sums, kept job by job.

The sums follow the facts: at the beginning of a cycle only the jobs that changed since the last
one are counted anew, so it costs the same with a thousand pods and with a hundred thousand.
What a cycle places, evicts and admits on top is kept apart and forgotten when the next begins:
by then the facts, or what was asked for, say it themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import ALLOCATED, Job
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import Amounts

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

__all__ = ["Account", "Accounts", "Sums", "add", "claims_of"]

Sums: TypeAlias = dict[str, int]
PathOf: TypeAlias = Callable[[str], Sequence[str]]


def add(sums: Sums, amounts: Amounts | Sums, sign: int = 1) -> None:
    """Entries that become zero disappear."""
    pairs = amounts.items() if isinstance(amounts, dict) else amounts
    for name, units in pairs:
        total = sums.get(name, 0) + sign * units
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


def claims_of(job: Job) -> tuple[Sums, Sums]:
    """What an admitted job was promised and does not hold yet, and what it holds beyond that.

    The first counts for a job that waits, and for one that runs and had its minimum; one whose
    pods have begun to finish is promised nothing more. Gated pods want nothing yet.
    """
    if not job.min_resources:
        return {}, dict(job.allocated)
    held, least = job.allocated, dict(job.min_resources)
    beyond = {name: units - least.get(name, 0) for name, units in held.items()}
    beyond = {name: units for name, units in beyond.items() if units > 0}
    promised = job.phase == PodGroupPhase.INQUEUE or (
        job.phase == PodGroupPhase.RUNNING and job.count(*ALLOCATED) >= job.min_member
    )
    if not promised:
        return {}, beyond
    missing: Sums = {}
    for name, units in least.items():
        lacking = max(0, units - held.get(name, 0)) - job.gated.get(name, 0)
        if lacking > 0:
            missing[name] = lacking
    return missing, beyond


@dataclass(slots=True)
class Account:
    """The sums of one queue, as the facts have them."""

    jobs: int = 0
    allocated: Sums = field(default_factory=dict[str, int])
    """By pods that are on a node, or asked to be there, and are meant to stay."""
    requested: Sums = field(default_factory=dict[str, int])
    """The same, with those that wait."""
    promised: Sums = field(default_factory=dict[str, int])
    """To jobs that were admitted and do not hold their minimum."""
    elastic: Sums = field(default_factory=dict[str, int])
    """Held by jobs beyond their minimum."""
    earmarked: Sums = field(default_factory=dict[str, int])
    """Kept for pods that the queue let through its gate and that have no node yet."""


class _Entry(NamedTuple):
    """What one job adds to the account of its queue."""

    queue: str
    allocated: Sums
    requested: Sums
    promised: Sums
    elastic: Sums
    earmarked: Sums


def _itself(queue: str) -> Sequence[str]:
    return (queue,)


@dataclass(slots=True)
class Accounts:
    """One account per queue; with `path_of`, also per queue above it."""

    path_of: PathOf = _itself
    """Every queue whose account a job of this queue is counted in, itself among them."""
    changed: dict[str, None] = field(default_factory=dict[str, None])
    """Accounts of which a sum of the facts changed when the cycle began."""
    _entries: dict[JobKey, _Entry] = field(default_factory=dict[JobKey, _Entry])
    _members: dict[str, dict[JobKey, None]] = field(default_factory=dict[str, dict[JobKey, None]])
    _accounts: dict[str, Account] = field(default_factory=dict[str, Account])
    _held: dict[str, Sums] = field(default_factory=dict[str, Sums])
    """Of queues, as far as anybody asked in this cycle: what the facts say and the cycle did."""
    _placed: dict[str, Sums] = field(default_factory=dict[str, Sums])
    _admitted: dict[str, Sums] = field(default_factory=dict[str, Sums])
    _earmarked: dict[str, Sums] = field(default_factory=dict[str, Sums])

    # A cycle begins.

    def rebase(self, session: "Session", queue_of: Callable[[Job], str] | None = None) -> None:
        """Only jobs that changed are counted anew; `queue_of` may draw other lines than queues."""
        queue_of = queue_of or session.queue_of
        self._placed.clear()
        self._held.clear()
        self._admitted.clear()
        self._earmarked.clear()
        self.changed.clear()
        for key in session.dirty:
            job = session.jobs.get(key)
            entry = None
            if job is not None and job.pod_group is not None:
                entry = _entry(job, queue_of(job))
            before = self._entries.get(key)
            if entry != before:
                self._exchange(key, before, entry)

    def repath(self, path_of: PathOf) -> None:
        """The tree of queues is a different one: count everybody anew."""
        self.path_of = path_of
        self._accounts.clear()
        self._held.clear()
        for entry in self._entries.values():
            self._count(entry, 1)

    def _exchange(self, key: JobKey, before: _Entry | None, after: _Entry | None) -> None:
        if before is not None:
            self._count(before, -1)
            del self._entries[key], self._members[before.queue][key]
            if not self._members[before.queue]:
                del self._members[before.queue]
        if after is not None:
            self._entries[key] = after
            self._members.setdefault(after.queue, {})[key] = None
            self._count(after, 1)

    def _count(self, entry: _Entry, sign: int) -> None:
        for name in self.path_of(entry.queue):
            self.changed[name] = None
            account = self._accounts.get(name)
            if account is None:
                account = self._accounts[name] = Account()
            account.jobs += sign
            for sums, amounts in (
                (account.allocated, entry.allocated),
                (account.requested, entry.requested),
                (account.promised, entry.promised),
                (account.elastic, entry.elastic),
                (account.earmarked, entry.earmarked),
            ):
                if amounts:
                    add(sums, amounts, sign)
            if not account.jobs:
                del self._accounts[name]

    # What a cycle does.

    def place(self, queue: str, request: Amounts, count: int) -> None:
        """So many pods more, or less, of this request."""
        for above in self.path_of(queue):
            placed = self._placed.setdefault(above, {})
            for name, units in request:
                placed[name] = placed.get(name, 0) + units * count
            held = self._held.get(above)
            if held is not None:
                for name, units in request:
                    held[name] = held.get(name, 0) + units * count

    def admit(self, queue: str, least: Amounts) -> None:
        for above in self.path_of(queue):
            add(self._admitted.setdefault(above, {}), least)

    def earmark(self, queue: str, request: Amounts, count: int) -> None:
        """Room for so many pods more, or less, belongs to who was let through the gate."""
        for above in self.path_of(queue):
            marked = self._earmarked.setdefault(above, {})
            add(marked, tuple((name, units * count) for name, units in request))

    # Questions.

    @property
    def queues(self) -> list[str]:
        """Those that have jobs, in them or below, by name."""
        return sorted(self._accounts)

    def of(self, queue: str) -> Account:
        """As the facts have it, without what this cycle did."""
        return self._accounts.get(queue) or Account()

    def allocated(self, queue: str) -> Sums:
        """With what this cycle placed, pipelined and evicted; a copy."""
        return dict(self.held(queue))

    def held(self, queue: str) -> Mapping[str, int]:
        """The same, to look at and not to keep: it moves with the cycle."""
        held = self._held.get(queue)
        if held is None:
            account = self._accounts.get(queue)
            held = self._held[queue] = dict(account.allocated) if account else {}
            for name, units in self._placed.get(queue, {}).items():
                held[name] = held.get(name, 0) + units
        return held

    def earmarked(self, queue: str) -> Sums:
        """Kept for pods that were let through the gate, as the cycle stands; a copy."""
        sums = dict(self.of(queue).earmarked)
        add(sums, self._earmarked.get(queue, {}))
        return sums

    def spoken_for(self, queue: str) -> Sums:
        """What counts against the limit when a job asks to be admitted."""
        sums = self.allocated(queue)
        account = self.of(queue)
        add(sums, account.promised)
        add(sums, self._admitted.get(queue, {}))
        add(sums, account.elastic, -1)
        return sums

    def holders(self, queue: str) -> list[tuple[JobKey, Sums]]:
        """The jobs that hold something in this very queue, as the facts have it."""
        return [
            (key, entry.allocated)
            for key in self._members.get(queue, ())
            if (entry := self._entries[key]).allocated
        ]


def _entry(job: Job, queue: str) -> _Entry:
    promised, elastic = claims_of(job)
    is_admitted = job.earmarked and job.phase != PodGroupPhase.PENDING
    earmarked = dict(job.earmarked) if is_admitted else {}
    return _Entry(queue, dict(job.allocated), job.requested, promised, elastic, earmarked)
