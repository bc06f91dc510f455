"""Try to place what a job wants: its gang until that is complete, or a little more beyond it.

Works on the trial and never decides whether that is kept. Sub-groups are placed whole or not at
all; the fewest that the gang needs come first. What must stand together is tried in one part of the
network after the other, and taken back whole where it does not fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final

from stromboli.scheduling.actions.domains import heeds_network, of_group, of_job
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.session import Session
from stromboli.scheduling.subgroups import Grouping, GroupKey
from stromboli.scheduling.topology_reasons import Scattered

__all__ = ["Filled", "fill", "in_order", "needed_to_start", "place_batch", "runs"]


@dataclass(slots=True)
class Filled:
    """What became of the pods that wanted a place."""

    left: list[Task]
    failed: Task | None = None
    """The first that no node has room for."""
    refused: Task | None = None
    """The first that its queue has no room for."""
    refusal: Refusal | None = None
    """Why there is no use in looking at nodes."""
    scattered: Scattered | None = None
    """Why there is room, but not in one part of the network."""
    found: int = 0

    @property
    def is_refused(self) -> bool:
        """Whether looking at other nodes is of no use."""
        return self.refused is not None or self.refusal is not None

    def learn(self, other: "Filled") -> None:
        """Why others of the same job found no place; what was said first counts."""
        self.failed = self.failed or other.failed
        self.refused = self.refused or other.refused
        self.refusal = self.refusal or other.refusal
        self.scattered = self.scattered or other.scattered


@dataclass(slots=True)
class _Failures:
    kinds: dict[TaskClass, None] = field(default_factory=dict[TaskClass, None])
    roles: dict[str, None] = field(default_factory=dict[str, None])


def fill(session: Session, contender: Contender, most: int | None) -> Filled:
    """Place until the gang is complete; with `most`, that many pods (or one sub-group) more."""
    if heeds_network(session, contender):
        return _fill_together(session, contender, most)
    return _fill_all(session, contender, most, None)


def _fill_all(
    session: Session, contender: Contender, most: int | None, domain: int | None
) -> Filled:
    if contender.job.grouping is not None:
        return _fill_groups(session, contender, contender.job.grouping, most, domain)
    return _fill(session, contender, contender.waiting, most)


def _fill_together(session: Session, contender: Contender, most: int | None) -> Filled:
    job = of_job(session, contender, 1 if most is not None else needed_to_start(contender))
    for domain in job.domains():
        mark = session.trial.checkpoint()
        with session.choosing.within(session.network.slots(domain)):
            filled = _fill_all(session, contender, most, domain)
        if filled.found and (most is not None or _may_stay(session, contender)):
            return filled
        if filled.is_refused or job.tier is None:
            return filled
        session.trial.rollback(mark)
    if job.is_short_of_room:
        filled = _fill_all(session, contender, most, job.root)
    else:
        groups = contender.missing_groups(pipelined=True) if most is None else 0
        lacking = job.scattered(groups=groups, pods=contender.pods_for_groups if groups else 0)
        filled = Filled(list(contender.waiting), contender.waiting[0])
        if lacking.domain is not None:
            with session.choosing.within(session.network.slots(lacking.domain)):
                filled = _fill_all(session, contender, most, lacking.domain)
        filled.scattered = filled.scattered or lacking
    filled.found = 0  # it was placed to see what is missing
    return filled


def needed_to_start(contender: Contender) -> int:
    """How many must find a place at once for the gang to start."""
    return max(1, contender.deficit, sum(contender.role_deficits().values()))


def _may_stay(session: Session, contender: Contender) -> bool:
    return session.panel.is_ready(contender) or session.panel.may_wait(contender)


def _fill(session: Session, contender: Contender, tasks: list[Task], most: int | None) -> Filled:
    result = Filled([])
    failures = _Failures()
    may_go_on = True
    for batch in runs(tasks):
        kind, role = batch[0].kind, batch[0].role
        want = len(batch)
        if most is not None:
            want = min(want, most - result.found)
        elif session.panel.is_ready(contender):
            want = 0
        else:
            want = min(want, contender.of_use(role))
        if not may_go_on or kind in failures.kinds or (role and role in failures.roles):
            want = 0
        found = _place(session, contender, batch, want, result) if want > 0 else 0
        result.found += found
        result.left += batch[found:]
        if found < want and result.refused is not batch[found]:
            failures.kinds[kind] = None
            failures.roles[role] = None
            may_go_on = most is not None or _may_go_on_without(contender, failures.roles)
    return result


def _place(
    session: Session, contender: Contender, batch: list[Task], want: int, result: Filled
) -> int:
    """How many got a place; those are the first of the batch."""
    kind = batch[0].kind
    refusal = session.hopeless(contender, kind)
    if refusal is not None:
        result.refusal = result.refusal or refusal
        result.failed = result.failed or batch[0]
        return 0
    allowed = session.allowed(contender, kind, want)
    found = place_batch(session, contender, batch, allowed)
    if found < allowed:
        result.failed = result.failed or batch[found]
    elif allowed < want and result.refused is None:
        # The queue has had enough of these; others of the job may be smaller.
        result.refused = batch[found]
    return found


def place_batch(session: Session, contender: Contender, batch: list[Task], most: int) -> int:
    """How many got a place, first where others make room for them; they are put in front."""
    found = 0
    if most and session.nominated:
        found = _at_nominated(session, contender, batch, most)
    if found < most:
        found += session.place(contender, batch[found:], most - found)
    return found


def _at_nominated(session: Session, contender: Contender, batch: list[Task], most: int) -> int:
    """Pods for whom others make room on a node go there, if they still can."""
    placed: list[Task] = []
    for task in batch:
        node = session.nominated.get(task.uid)
        slot = session.nodes.slot(node) if node else None
        if slot is not None and session.place_at(contender, task, slot):
            placed.append(task)
            if len(placed) == most:
                break
    if placed:
        done = {task.uid for task in placed}
        batch[:] = [*placed, *(task for task in batch if task.uid not in done)]
    return len(placed)


def _may_go_on_without(contender: Contender, failed_roles: dict[str, None]) -> bool:
    """Whether the gang can still become complete although these roles found no more room."""
    job = contender.job
    minimums = job.pod_group.spec.min_task_member if job.pod_group else {}
    if job.min_member >= len(job.tasks):
        return False
    if job.min_member < sum(minimums.values()):
        others = sum(task.role not in failed_roles for task in contender.waiting)
        return contender.ready() + others >= job.min_member
    return all(contender.ready(role) >= minimums.get(role, 0) for role in failed_roles)


# Sub-groups.


@dataclass(frozen=True, slots=True)
class _Group:
    key: GroupKey
    tasks: list[Task]
    short: int
    """So many of them make it whole."""


def _fill_groups(
    session: Session,
    contender: Contender,
    grouping: Grouping,
    most: int | None,
    domain: int | None,
) -> Filled:
    result = Filled([])
    alone: list[Task] = []
    by_group: dict[GroupKey, list[Task]] = {}
    for task in contender.waiting:
        key = grouping.of(task)
        (alone if key is None else by_group.setdefault(key, [])).append(task)
    counts = contender.group_counts(pipelined=True)
    for key in in_order(counts, grouping, by_group):
        group = _Group(key, by_group[key], grouping.size(key) - counts.get(key, 0))
        enough = result.found > 0 if most is not None else session.panel.is_ready(contender)
        tried = Filled(group.tasks)
        if not enough:
            tried = _fill_group(session, contender, group, domain)
        result.left += tried.left
        result.found += tried.found
        if not tried.found:
            result.learn(tried)
    if most is None or not result.found:
        rest = _fill(session, contender, alone, most)
        result.left += rest.left
        result.found += rest.found
        result.learn(rest)
    else:
        result.left += alone
    return result


def _fill_group(
    session: Session, contender: Contender, group: _Group, domain: int | None
) -> Filled:
    """The sub-group whole or not at all, in one part of the domain of its job."""
    if domain is None:
        return _place_whole(session, contender, group)
    together = of_group(
        session, contender, group.key, group.tasks, needed=max(group.short, 1), root=domain
    )
    for part in together.domains():
        with session.choosing.within(session.network.slots(part)):
            tried = _place_whole(session, contender, group)
        if tried.found or tried.is_refused or together.tier is None:
            return tried
    if together.is_short_of_room:
        return _place_whole(session, contender, group)
    return Filled(group.tasks, group.tasks[0], scattered=together.scattered())


def _place_whole(session: Session, contender: Contender, group: _Group) -> Filled:
    """As many as are missing at least, or none."""
    mark = session.trial.checkpoint()
    result = Filled([])
    for batch in runs(group.tasks):
        full = bool(result.left)
        placed = 0 if full else _place(session, contender, batch, len(batch), result)
        result.found += placed
        result.left += batch[placed:]
    if result.found < group.short:
        session.trial.rollback(mark)
        result.left, result.found = group.tasks, 0
    return result


def in_order(
    counts: dict[GroupKey, int], grouping: Grouping, by_group: dict[GroupKey, list[Task]]
) -> list[GroupKey]:
    """First the fewest that are needed of each policy, then the others."""
    ordered = sorted(
        by_group,
        key=lambda key: (
            counts.get(key, 0) >= grouping.size(key),
            -max(task.priority for task in by_group[key]),
            key,
        ),
    )
    needed: list[GroupKey] = []
    others: list[GroupKey] = []
    for key in ordered:
        policy = grouping.policies[key[0]]
        complete = sum(
            of == key[0] and ready >= grouping.size((of, values))
            for (of, values), ready in counts.items()
        )
        taken = sum(other[0] == key[0] for other in needed)
        required = complete + taken < (policy.min_sub_groups or 0)
        (needed if required else others).append(key)
    return [*needed, *others]


def runs(tasks: list[Task]) -> Iterator[list[Task]]:
    """Tasks that follow each other and are of one class and role."""
    for _, batch in groupby(tasks, _KIND_AND_ROLE):
        yield list(batch)


_KIND_AND_ROLE: Final = attrgetter("kind", "role")
