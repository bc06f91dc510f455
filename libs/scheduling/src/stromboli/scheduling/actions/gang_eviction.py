"""Make room for whole gangs, at the cost of pods that others can spare or of whole gangs.

For each job a plan is sought: bundles of victims, one after the other, until all that the job
needs could wait for the room. What was tried and did not suffice is taken back. `gangpreempt`
takes from jobs of lower priority in the same queue, `gangreclaim` from other queues. For a job that
must stand close together, one part of the network after the other is looked at, the widest first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np

from stromboli.api.wellknown import PREEMPTABLE
from stromboli.scheduling.actions.bundles import Bundle, bundles_of, filtered
from stromboli.scheduling.actions.domains import heeds_network, of_group, of_job
from stromboli.scheduling.actions.filling import in_order, needed_to_start, runs
from stromboli.scheduling.actions.making_room import conclude, is_for_allocate, starving
from stromboli.scheduling.actions.reclaim import others_reclaimable
from stromboli.scheduling.actions.sparing import Sparing, settle
from stromboli.scheduling.actions.tenancy import Tenancy
from stromboli.scheduling.actions.turns import Turns
from stromboli.scheduling.decisions import Action, Decisions
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.plugins.api import Claim, SortKey
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.resources import IntVector
from stromboli.scheduling.session import Session
from stromboli.scheduling.subgroups import Grouping, GroupKey
from stromboli.scheduling.trial import Eviction

__all__ = ["build_gangpreempt", "build_gangreclaim"]

GANGPREEMPT: Final = "gangpreempt"
GANGRECLAIM: Final = "gangreclaim"

_MAX_DOMAINS: Final = 8


class Args(msgspec.Struct, frozen=True):
    """By Volcano's names."""

    max_domains: int = msgspec.field(default=_MAX_DOMAINS, name="maxDomains")
    whole: bool = msgspec.field(default=True, name="allowWholeBundle")


def build_gangpreempt(arguments: Mapping[str, Any]) -> Action:
    args = read_arguments(GANGPREEMPT, Args, arguments)
    return partial(_run, action=GANGPREEMPT, args=args)


def build_gangreclaim(arguments: Mapping[str, Any]) -> Action:
    args = read_arguments(GANGRECLAIM, Args, arguments)
    return partial(_run, action=GANGRECLAIM, args=args)


def _run(session: Session, decisions: Decisions, *, action: str, args: Args) -> None:
    session.freed.keep()
    candidates = starving(session)
    if not candidates:
        return
    session.expect_releases()
    evicting = _Evicting(session, decisions, Tenancy(session), action, args)
    turns = Turns(session, candidates)
    while (contender := turns.pop()) is not None:
        if evicting.reclaiming and session.panel.overused(session.queue(contender)):
            turns.leave(contender)
        else:
            evicting.for_job(contender)
    settle(session, decisions)


@dataclass(slots=True)
class _Evicting:
    session: Session
    decisions: Decisions
    tenancy: Tenancy
    action: str
    args: Args

    @property
    def reclaiming(self) -> bool:
        return self.action == GANGRECLAIM

    def for_job(self, contender: Contender) -> None:
        session = self.session
        wanted = _needed(contender)
        if not wanted or not all(task.may_preempt for task in wanted):
            return
        kinds = dict.fromkeys(task.kind for task in wanted)
        if any(session.hopeless(contender, kind) is not None for kind in kinds):
            return
        claim = Claim(contender, (*wanted, *_small_ones(contender, wanted)))
        if self.reclaiming and not session.panel.preemptive(session.queue(contender), claim):
            return
        for domain in self._domains(contender, len(wanted)):
            if self._makes_room(claim, domain):
                return

    def _domains(self, contender: Contender, wanted: int) -> list[int]:
        if not heeds_network(self.session, contender):
            return [self.session.network.top]
        needed = min(wanted, needed_to_start(contender))
        found = of_job(self.session, contender, needed).domains(evicting=True)
        most = self.args.max_domains if self.args.max_domains > 0 else _MAX_DOMAINS
        return list(islice(dict.fromkeys(found), most))

    def _makes_room(self, claim: Claim, domain: int) -> bool:
        """Whether all that the job needs waits for room in this domain now."""
        session, contender = self.session, claim.contender
        slots = session.network.slots(domain)
        bundles = self._bundles(claim, slots)
        need = session.nodes.resources.vector(claim.request)
        mark = session.trial.checkpoint()
        free = np.maximum(session.trial.future[:, slots], 0).sum(axis=1)[: len(need)]
        taken: list[list[Eviction]] = []
        for bundle in bundles:
            gone = self._taken(bundle, contender)
            if not gone:
                continue
            taken.append(gone)
            for eviction in gone:
                free[: len(eviction.request)] += eviction.request[: len(free)]
            if (need <= free).all():
                left = self._placed(contender, domain)
                if left is not None:
                    self._spare(contender, domain, mark, taken)
                    if is_for_allocate(session, self.action, mark):
                        session.trial.rollback(mark)
                    else:
                        conclude(
                            session, self.decisions, contender, session.trial.commit(mark), left
                        )
                    return True
        session.trial.rollback(mark)
        return False

    def _taken(self, bundle: Bundle, claimant: Contender) -> list[Eviction]:
        """Those of the bundle who go: a gang of which somebody is protected stays whole."""
        session = self.session
        mark = session.trial.checkpoint()
        gone: list[Eviction] = []
        for task in bundle.tasks:
            if session.panel.may_go(task):
                gone.append(session.evict(task, claimant=claimant, action=self.action))
            elif not bundle.is_safe:
                session.trial.rollback(mark)
                return []
        return gone

    def _spare(
        self, contender: Contender, domain: int, mark: int, taken: list[list[Eviction]]
    ) -> None:
        """Bundles that later ones have made needless stay, each as a whole."""
        network = self.session.network
        together = contender.job.grouping is not None and heeds_network(self.session, contender)
        Sparing(
            self.session,
            contender,
            mark,
            within=network.slots(domain) if domain != network.top else None,
            may_move=not together,
        ).run(reversed(taken))

    def _placed(self, contender: Contender, domain: int) -> list[Task] | None:
        """The pods that are not needed, once all others wait for a node; None if some can't."""
        session, network = self.session, self.session.network
        mark = session.trial.checkpoint()
        grouping = contender.job.grouping
        slots = network.slots(domain) if domain != network.top else None
        with session.choosing.within(slots):
            if grouping is not None:
                left = self._place_groups(contender, grouping, domain)
            else:
                left = self._place(contender, contender.waiting)
            small, contender.best_effort = contender.best_effort, []
            rest = self._place_small(contender, small)
        if len(left) < len(contender.waiting) and session.panel.may_wait(contender):
            return [*left, *rest]
        session.trial.rollback(mark)
        contender.best_effort = small
        return None

    def _place_small(self, contender: Contender, tasks: list[Task]) -> list[Task]:
        """Of pods that ask for a place alone, too, only those count that find one."""
        left: list[Task] = []
        for batch in runs(tasks):
            want = min(len(batch), max(0, contender.of_use(batch[0].role, pipelined=True)))
            found = self._wait(contender, batch[:want]) if want else 0
            left += batch[found:]
        return left

    def _place(
        self, contender: Contender, tasks: list[Task], most: int | None = None
    ) -> list[Task]:
        """Those that need not, or can't, wait for a node; `most`: so many are enough."""
        left: list[Task] = []
        placed = 0
        beyond = 1 if contender.is_pipelined else 0
        for batch in runs(tasks):
            if most is not None:
                want = most - placed
            else:
                want = max(contender.of_use(batch[0].role, pipelined=True), beyond - placed)
            want = min(want, len(batch))
            want = self.session.allowed(contender, batch[0].kind, want) if want > 0 else 0
            found = self._wait(contender, batch[:want]) if want else 0
            placed += found
            left += batch[found:]
        return left

    def _wait(self, contender: Contender, tasks: list[Task]) -> int:
        """How many of these have a node to wait for; first those where room is now."""
        choosing = self.session.choosing
        found = choosing.place(contender, tasks, pipelined=True, where_free=True)
        if found < len(tasks):
            found += choosing.place(contender, tasks[found:], pipelined=True)
        return found

    def _place_groups(self, contender: Contender, grouping: Grouping, domain: int) -> list[Task]:
        """Sub-group by sub-group, each in a part of the domain, until the job may wait.

        Of a job that is complete already, one sub-group more.
        """
        by_group, alone = _by_group(contender, grouping)
        counts = contender.group_counts(pipelined=True)
        left: list[Task] = []
        placed = False
        for key in in_order(counts, grouping, by_group):
            tasks = by_group[key]
            if not (placed and contender.is_pipelined):
                needed = max(1, grouping.size(key) - counts.get(key, 0))
                rest = self._place_group(contender, key, tasks, needed, domain)
                placed = placed or len(rest) < len(tasks)
                tasks = rest
            left += tasks
        if placed and contender.is_pipelined:
            return left + alone
        return left + self._place(contender, alone)

    def _place_group(
        self, contender: Contender, key: GroupKey, tasks: list[Task], needed: int, domain: int
    ) -> list[Task]:
        """Those of a sub-group that need not wait for a node; all of them if not enough can."""
        session = self.session
        parts: Iterable[int] = (domain,)
        if heeds_network(session, contender):
            group = of_group(session, contender, key, tasks, needed=needed, root=domain)
            parts = group.domains()
        enough = max(needed, _short(contender))
        for part in parts:
            mark = session.trial.checkpoint()
            with session.choosing.within(session.network.slots(part)):
                left = self._place(contender, tasks, enough)
            if len(tasks) - len(left) >= needed:
                return left
            session.trial.rollback(mark)
        return tasks

    def _bundles(self, claim: Claim, slots: IntVector) -> list[Bundle]:
        session = self.session
        by_job: dict[tuple[str, str], list[Task]] = {}
        eligible = self._eligible(claim.contender)
        for task in self.tenancy.everyone(slots.tolist()):
            if eligible(task):
                by_job.setdefault(task.job, []).append(task)
        bundles = [
            bundle
            for key, tasks in by_job.items()
            for bundle in bundles_of(session.contender(key), tasks, whole=self.args.whole)
        ]
        bundles = self._ordered(bundles, claim)
        flat = [task for bundle in bundles for task in bundle.tasks]
        may_go = session.panel.evictable(claim, flat, reclaiming=self.reclaiming) if flat else []
        return self._ordered(filtered(bundles, may_go), claim)

    def _ordered(self, bundles: Sequence[Bundle], claim: Claim) -> list[Bundle]:
        session, need = self.session, claim.request
        ordered = sorted(
            bundles,
            key=lambda b: (-b.worth(need), b.contender.job.uid, b.tasks[0].uid),
        )
        if self.reclaiming:
            ordered.sort(key=lambda b: session.queue_order_of(b.contender.queue), reverse=True)
            ordered.sort(key=self._victim_order(claim))
        else:
            ordered.sort(key=lambda b: session.job_preference(b.contender), reverse=True)
        ordered.sort(key=lambda b: not b.is_safe)
        return ordered

    def _victim_order(self, claim: Claim) -> Callable[[Bundle], SortKey]:
        session = self.session
        claimant = session.queue(claim.contender)
        return lambda bundle: tuple(
            plugin.victim_queue_order(session.queue(bundle.contender), claimant)
            for plugin in session.panel.victim_queue_order
        )

    def _eligible(self, contender: Contender) -> Callable[[Task], bool]:
        session = self.session
        if self.reclaiming:
            queues = frozenset(others_reclaimable(session, contender.queue))
            return lambda task: (
                task.status is TaskStatus.RUNNING
                and session.contender(task.job).queue in queues
                and _may_be_broken(session.jobs[task.job])
            )
        priority, queue = contender.job.priority, contender.queue
        return lambda task: (
            session.jobs[task.job].priority < priority
            and session.contender(task.job).queue == queue
            and _may_be_broken(session.jobs[task.job])
        )


def _needed(contender: Contender) -> list[Task]:
    """The pods that must find a place: those missing from the minimum, else the next of them."""
    job = contender.job
    if job.grouping is not None:
        return _needed_of_groups(contender, job.grouping)
    found: list[Task] = []
    others: list[Task] = []
    missing = contender.role_deficits(pipelined=True)
    for task in contender.waiting:
        is_needed = missing.get(task.role, 0) > 0
        if is_needed:
            missing[task.role] -= 1
        (found if is_needed else others).append(task)
    return found + others[: max(_short(contender) - len(found), 0 if found else 1)]


def _small_ones(contender: Contender, wanted: list[Task]) -> list[Task]:
    """The pods that ask for a place alone and that the gang needs as well."""
    short = contender.job.min_member - contender.ready_or_pipelined() - len(wanted)
    return contender.best_effort[: max(0, short)]


def _needed_of_groups(contender: Contender, grouping: Grouping) -> list[Task]:
    """Of as many sub-groups as are missing; of a job that is complete, the next one."""
    if contender.job.role_minimums:
        return contender.waiting
    by_group, others = _by_group(contender, grouping)
    counts = contender.group_counts(pipelined=True)
    short = _short(contender)
    found: list[Task] = []
    for key in in_order(counts, grouping, by_group):
        tasks = by_group[key]
        taken = 0
        if not found or short > len(found) or grouping.missing(counts):
            taken = max(1, grouping.size(key) - counts.get(key, 0))
            counts[key] = counts.get(key, 0) + len(tasks[:taken])
        found += tasks[:taken]
        others += tasks[taken:]
    return found + others[: max(short - len(found), 0 if found else 1)]


def _by_group(
    contender: Contender, grouping: Grouping
) -> tuple[dict[GroupKey, list[Task]], list[Task]]:
    """The waiting pods of each sub-group, and those of none."""
    by_group: dict[GroupKey, list[Task]] = {}
    alone: list[Task] = []
    for task in contender.waiting:
        key = grouping.of(task)
        (alone if key is None else by_group.setdefault(key, [])).append(task)
    return by_group, alone


def _short(contender: Contender) -> int:
    """How many more must come; pods that need no room are sure of their place."""
    sure = contender.ready_or_pipelined() + len(contender.best_effort)
    return contender.job.min_member - sure


def _may_be_broken(job: Job) -> bool:
    """A PodGroup may say that it is not to be preempted; by default it may be."""
    pod_group = job.pod_group
    if pod_group is None:
        return False
    metadata = pod_group.metadata
    said = metadata.annotations.get(PREEMPTABLE) or metadata.labels.get(PREEMPTABLE, "")
    return said.lower() != "false"
