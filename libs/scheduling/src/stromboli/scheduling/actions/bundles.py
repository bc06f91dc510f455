"""What a job could give up: first the pods it can do without, then everything it has here.

A gang that loses one pod too many stops, so what it would still hold is wasted. Pods beyond its
minimum are therefore one bundle, taken first; all its others are a second one, taken together or
not at all.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import Task
from stromboli.scheduling.resources import PODS, Amounts, added
from stromboli.scheduling.spare import Spare

__all__ = ["Bundle", "bundles_of", "filtered"]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pods of one job that go together."""

    contender: Contender
    tasks: tuple[Task, ...]
    is_safe: bool
    """Whether the job goes on without them."""
    lost: Amounts
    """What its job stops using when they go: for a whole gang, all that it has."""

    def worth(self, need: Amounts) -> float:
        """How much of what is needed it gives, for how much of that is lost."""
        given = _measured(added(task.kind.request for task in self.tasks), need, capped=True)
        lost = _measured(self.lost, need, capped=False)
        return given / lost if lost else math.inf


def bundles_of(contender: Contender, candidates: Sequence[Task], *, whole: bool) -> list[Bundle]:
    """At most two: what the job can spare, and if `whole`, the rest."""
    ordered = sorted(candidates, key=lambda task: (task.priority, task.uid))
    safe = _spare(contender, ordered)
    chosen = {task.uid for task in safe}
    rest = tuple(task for task in ordered if task.uid not in chosen)
    found: list[Bundle] = []
    if safe:
        lost = added(task.kind.request for task in safe)
        found.append(Bundle(contender, tuple(safe), is_safe=True, lost=lost))
    if rest and whole:
        everything = added(task.kind.request for task in contender.job.tasks.values())
        found.append(Bundle(contender, rest, is_safe=False, lost=everything))
    return found


def _spare(contender: Contender, ordered: list[Task]) -> list[Task]:
    spare = Spare(contender)
    if spare.is_broken:
        return ordered  # it does not run as a gang any more
    return [task for task in ordered if spare.take(task)]


def filtered(bundles: Iterable[Bundle], may_go: Sequence[Task]) -> list[Bundle]:
    """A gang of which somebody has to stay is left alone; what can be spared may shrink."""
    named = {task.uid for task in may_go}
    found: list[Bundle] = []
    for bundle in bundles:
        left = tuple(task for task in bundle.tasks if task.uid in named)
        if len(left) == len(bundle.tasks):
            found.append(bundle)
        elif left and bundle.is_safe:
            lost = added(task.kind.request for task in left)
            found.append(replace(bundle, tasks=left, lost=lost))
    return found


def _measured(amounts: Amounts, need: Amounts, *, capped: bool) -> float:
    """Amounts in units of what is needed, added up."""
    have = dict(amounts)
    total = 0.0
    for name, units in need:
        if name != PODS and units:
            part = have.get(name, 0) / units
            total += min(part, 1.0) if capped else part
    return total
