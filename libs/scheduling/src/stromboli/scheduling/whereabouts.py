"""Where the pods of jobs stand that want to be close together, with what this cycle did.

Facts say where pods stood when the cycle began; what was placed since is known to nobody but the
trial, which forgets it when it is committed. So it is noted here as it happens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stromboli.scheduling.jobs import ALLOCATED, Contender
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.pods import JobKey, Task
from stromboli.scheduling.resources import IntVector

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["Whereabouts"]


@dataclass(slots=True)
class Whereabouts:
    """Of the jobs that care about the network."""

    nodes: NodeTable
    _placed: dict[JobKey, dict[str, tuple[Task, int]]] = field(
        default_factory=dict[JobKey, dict[str, tuple[Task, int]]]
    )
    _evicted: dict[str, None] = field(default_factory=dict[str, None])

    def standing(
        self, contender: Contender, wanted: Callable[[Task], bool] | None = None
    ) -> IntVector:
        """Slots of its pods that have a place and are to stay, one for each."""
        slots = [slot for task, slot in self._all(contender) if wanted is None or wanted(task)]
        return np.array(slots, dtype=np.int64)

    def _all(self, contender: Contender) -> Iterator[tuple[Task, int]]:
        if contender.job.ready:
            for task in contender.job.tasks.values():
                if task.status in ALLOCATED and task.uid not in self._evicted:
                    slot = self.nodes.slot(task.node)
                    if slot is not None:
                        yield task, slot
        yield from self._placed.get(contender.key, {}).values()

    # What the trial does.

    def placed(self, placement: "Placement") -> None:
        if placement.contender.job.is_tied_to_network:
            placed = self._placed.setdefault(placement.contender.key, {})
            for task, slot in zip(placement.tasks, placement.slots.tolist(), strict=True):
                placed[task.uid] = (task, slot)

    def withdrawn(self, placement: "Placement") -> None:
        if placement.contender.job.is_tied_to_network:
            placed = self._placed[placement.contender.key]
            for task in placement.tasks:
                del placed[task.uid]

    def evicted(self, eviction: "Eviction") -> None:
        self._evicted[eviction.task.uid] = None

    def restored(self, eviction: "Eviction") -> None:
        del self._evicted[eviction.task.uid]
