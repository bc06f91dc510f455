"""Which nodes need not be asked for victims, because those who could go are not enough.

Plugins judge the candidates of one node together, and become only stricter the more of a job, or
of a queue, are among them. So whoever would not be given up alone is not given up in company
either, and of equal pods of one job one speaks for all. A node where the others would not leave
enough need not be asked. What a plugin does not tell of itself (`JudgesBy`) counts as a yes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from stromboli.scheduling.actions.tenancy import Tenancy
from stromboli.scheduling.panel import Ask, Judges
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.plugins.promises import JudgesBy
from stromboli.scheduling.pods import JobKey, Task, TaskClass, TaskStatus
from stromboli.scheduling.resources import IntVector
from stromboli.scheduling.session import Session
from stromboli.scheduling.subgroups import GroupKey

__all__ = ["Willing"]

_PATIENCE: Final = 16
"""So many nodes are asked first: mostly one of them will do."""

_Like: TypeAlias = tuple[JobKey, TaskClass, str, str, int, TaskStatus, GroupKey | None]


@dataclass(frozen=True, slots=True)
class Willing:
    """For one claim, in one action."""

    session: Session
    tenancy: Tenancy
    claim: Claim
    judges: Judges
    is_eligible: Callable[[Task], bool]
    """The same for pods of one job, class and status."""

    def narrowed(self, slots: IntVector, request: IntVector) -> Iterator[int]:
        """The nodes in their order, after the first ones only where asking may be of use."""
        yield from slots[:_PATIENCE].tolist()
        if len(slots) > _PATIENCE:
            yield from self._among(slots[_PATIENCE:], request).tolist()

    def _among(self, slots: IntVector, request: IntVector) -> IntVector:
        """Those of the nodes where as many could go as have to."""
        if not all(any(isinstance(p, JudgesBy) for p, _ in tier) for tier in self.judges.tiers):
            return slots
        standing = [self.tenancy.still_at(slot) for slot in slots.tolist()]
        alike: dict[_Like, Task] = {}
        for tasks in standing:
            for task in tasks:
                alike.setdefault(self._like(task), task)
        could_go = self._could_go(alike)
        rows = np.flatnonzero(request)
        room = self.session.trial.future[np.ix_(rows, slots)]
        if could_go:
            for at, tasks in enumerate(standing):
                for task in tasks:
                    if self._like(task) in could_go:
                        room[:, at] += self.tenancy.vector(task.kind)[rows]
        return slots[(room >= request[rows, None]).all(axis=0)]

    def _could_go(self, alike: dict[_Like, Task]) -> dict[_Like, Task]:
        found: dict[_Like, Task] = {}
        for tier in self.judges.tiers:
            left = {like: task for like, task in alike.items() if like not in found}
            for plugin, judge in tier:
                if left and isinstance(plugin, JudgesBy):
                    left = self._given_up(left, plugin, judge)
            found |= {like: task for like, task in left.items() if self.is_eligible(task)}
        return found

    def _given_up(
        self,
        tasks: dict[_Like, Task],
        plugin: JudgesBy,
        judge: Ask,
    ) -> dict[_Like, Task]:
        found: dict[_Like, Task] = {}
        if plugin.judges_by == "queue":
            # Kinds of pods are few, and so are queues.
            verdicts: dict[tuple[str, TaskClass], bool] = {}
            for like, task in tasks.items():
                key = (self.session.queue_of(self.session.jobs[task.job]), task.kind)
                if key not in verdicts:
                    answer = judge(self.claim, [task])
                    verdicts[key] = answer is None or bool(answer)
                if verdicts[key]:
                    found[like] = task
            return found
        rounds: list[dict[JobKey, _Like]] = []
        alone = plugin.judges_by == "pod"
        for like in tasks:
            for asked in () if alone else rounds:
                if like[0] not in asked:
                    asked[like[0]] = like
                    break
            else:
                rounds.append({like[0]: like})
        for asked in rounds:
            answer = judge(self.claim, [tasks[like] for like in asked.values()])
            if answer is None:
                return tasks
            found |= {self._like(task): task for task in answer}
        return found

    def _like(self, task: Task) -> _Like:
        grouping = self.session.jobs[task.job].grouping
        return (
            task.job,
            task.kind,
            task.role,
            task.class_name,
            task.priority,
            task.status,
            grouping.of(task) if grouping is not None else None,
        )
