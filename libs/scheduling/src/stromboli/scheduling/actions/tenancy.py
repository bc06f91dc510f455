"""Who stands where and could be asked to go, with how much each node would have then.

Built once per cycle, when somebody first wants others to make room. The sums are an upper bound:
they say where asking is worth the while, not who may go.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from stromboli.scheduling.pods import Task, TaskClass, TaskStatus
from stromboli.scheduling.resources import IntMatrix, IntVector
from stromboli.scheduling.session import Session

__all__ = ["Tenancy", "in_victim_order"]


class Tenancy:
    """Pods that may be asked to go, node by node and queue by queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_slot: list[list[Task]] = [
            [task for task in session.tenants(name) if self._may_go(task)]
            for name in session.nodes.names
        ]
        self._queues: dict[str, IntMatrix] = {}
        self._vectors: dict[TaskClass, IntVector] = {}
        self._seen = len(session.trial.touched)
        for slot in range(len(self._by_slot)):
            self._sum(slot)

    def _may_go(self, task: Task) -> bool:
        job = self._session.jobs.get(task.job)
        return (
            task.preemptable
            and task.uid not in self._session.spared
            and task.status in {TaskStatus.BOUND, TaskStatus.RUNNING}
            and job is not None
            and job.pod_group is not None
            and self._session.queue_of(job) in self._session.queues
        )

    def at(self, slot: int, wanted: Callable[[Task], bool]) -> list[Task]:
        """Those on a node who are still there in this trial, in no particular order."""
        evicted, may_go = self._session.trial.evicted, self._session.panel.may_go
        return [
            task
            for task in self._by_slot[slot]
            if task.uid not in evicted and wanted(task) and may_go(task)
        ]

    def still_at(self, slot: int) -> list[Task]:
        """Those on a node who are still there in this trial, whether they may go or not."""
        evicted = self._session.trial.evicted
        return [task for task in self._by_slot[slot] if task.uid not in evicted]

    def everyone(self, slots: Iterable[int] | None = None) -> list[Task]:
        """On all nodes, or on these."""
        where = range(len(self._by_slot)) if slots is None else slots
        return [task for slot in where for task in self.at(slot, lambda _: True)]

    def promising(self, slots: IntVector, request: IntVector, queues: Sequence[str]) -> IntVector:
        """Those of these nodes that could have room if all pods of these queues were to go."""
        self._refresh()
        rows = np.flatnonzero(request)
        room = self._session.trial.future[np.ix_(rows, slots)]
        for queue in queues:
            taken = self._queues.get(queue)
            if taken is not None:
                room = room + taken[np.ix_(rows, slots)]
        return slots[(room >= request[rows, None]).all(axis=0)]

    def free_first(self, slots: IntVector, request: IntVector) -> IntVector:
        """These nodes, those with room before those where somebody would have to go."""
        rows = np.flatnonzero(request)
        room = self._session.trial.future[np.ix_(rows, slots)]
        has_room = (room >= request[rows, None]).all(axis=0)
        return np.concatenate((slots[has_room], slots[~has_room])) if has_room.any() else slots

    def vector(self, kind: TaskClass) -> IntVector:
        vector = self._vectors.get(kind)
        if vector is None:
            vector = self._vectors[kind] = self._session.nodes.resources.vector(kind.request)
        return vector

    def _refresh(self) -> None:
        touched = self._session.trial.touched
        if self._seen < len(touched):
            for slot in np.unique(np.concatenate(touched[self._seen :])).tolist():
                for amounts in self._queues.values():
                    amounts[:, slot] = 0
                self._sum(slot)
            self._seen = len(touched)

    def _sum(self, slot: int) -> None:
        evicted, session = self._session.trial.evicted, self._session
        for task in self._by_slot[slot]:
            if task.uid in evicted:
                continue
            queue = session.queue_of(session.jobs[task.job])
            amounts = self._queues.get(queue)
            if amounts is None:
                amounts = self._queues[queue] = np.zeros_like(session.trial.future)
            vector = self.vector(task.kind)
            amounts[: len(vector), slot] += vector


def in_victim_order(session: Session, tasks: list[Task], claimant_queue: str) -> list[Task]:
    """Who goes first: of the last queue the last job's last pod."""
    tasks = sorted(tasks, key=session.panel.order_of_tasks(), reverse=True)
    tasks.sort(key=lambda task: session.job_order(session.contender(task.job)), reverse=True)
    queues = {task.job: session.contender(task.job).queue for task in tasks}
    if len(set(queues.values())) > 1:
        tasks.sort(key=lambda task: session.queue_order_of(queues[task.job]), reverse=True)
        orders = session.panel.victim_queue_order
        if orders and claimant_queue in session.queues:
            claimant = session.queues[claimant_queue]
            tasks.sort(
                key=lambda task: tuple(
                    plugin.victim_queue_order(session.queues[queues[task.job]], claimant)
                    for plugin in orders
                )
            )
    return tasks
