"""Try to place what a job wants: its gang until that is complete, or a little more beyond it.

Works on the trial and never decides whether that is kept. Sub-groups are placed whole or not at
all; the fewest that the gang needs come first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Refusal
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.session import Session
from stromboli.scheduling.subgroups import Grouping, GroupKey

__all__ = ["Filled", "fill", "runs"]


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
    found: int = 0


@dataclass(slots=True)
class _Failures:
    kinds: dict[TaskClass, None] = field(default_factory=dict[TaskClass, None])
    roles: dict[str, None] = field(default_factory=dict[str, None])


def fill(session: Session, contender: Contender, most: int | None) -> Filled:
    """Place until the gang is complete; with `most`, that many pods (or one sub-group) more."""
    if contender.job.grouping is not None:
        return _fill_groups(session, contender, contender.job.grouping, most)
    return _fill(session, contender, contender.waiting, most)


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
        elif (enough := contender.until_ready(role)) is not None:
            want = min(want, enough)
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
    found = 0
    if allowed and session.nominated:
        found = _at_nominated(session, contender, batch, allowed)
    if found < allowed:
        found += session.place(contender, batch[found:], allowed - found)
    if found < allowed:
        result.failed = result.failed or batch[found]
    elif allowed < want and result.refused is None:
        # The queue has had enough of these; others of the job may be smaller.
        result.refused = batch[found]
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


def _fill_groups(
    session: Session, contender: Contender, grouping: Grouping, most: int | None
) -> Filled:
    result = Filled([])
    alone: list[Task] = []
    by_group: dict[GroupKey, list[Task]] = {}
    for task in contender.waiting:
        key = grouping.of(task)
        (alone if key is None else by_group.setdefault(key, [])).append(task)
    for key in _in_order(contender, grouping, by_group):
        tasks = by_group[key]
        enough = result.found > 0 if most is not None else session.panel.is_ready(contender)
        if enough or not _fill_group(session, contender, key, tasks, result):
            result.left += tasks
    if most is None or not result.found:
        rest = _fill(session, contender, alone, most)
        result.left += rest.left
        result.failed = result.failed or rest.failed
        result.refused = result.refused or rest.refused
        result.found += rest.found
    else:
        result.left += alone
    return result


def _fill_group(
    session: Session,
    contender: Contender,
    key: GroupKey,
    tasks: list[Task],
    result: Filled,
) -> bool:
    """Whether the sub-group is whole now; if not, nothing of it is placed."""
    grouping = contender.job.grouping
    mark = session.trial.checkpoint()
    found = 0
    for batch in runs(tasks):
        placed = _place(session, contender, batch, len(batch), result)
        found += placed
        if placed < len(batch):
            break
    whole = grouping.size(key) if grouping else 0
    if contender.group_counts(pipelined=True).get(key, 0) < whole:
        session.trial.rollback(mark)
        return False
    result.left += tasks[found:]
    result.found += found
    return True


def _in_order(
    contender: Contender, grouping: Grouping, by_group: dict[GroupKey, list[Task]]
) -> list[GroupKey]:
    """First the fewest that are needed of each policy, then the others."""
    counts = contender.group_counts(pipelined=True)
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
    batch: list[Task] = []
    for task in tasks:
        if batch and (task.kind is not batch[0].kind or task.role != batch[0].role):
            yield batch
            batch = []
        batch.append(task)
    if batch:
        yield batch
