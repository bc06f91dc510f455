"""The queue controller: what a decision about a queue rests on, gathered from the world."""

from collections.abc import Iterable, Iterator
from typing import Final

from stromboli.api import kinds
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.contracts.partitions import job_key
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import NOTHING_MORE, Case, Verdict
from stromboli.lifecycle.queues import (
    ALWAYS_THERE,
    GroupCounts,
    QueueSituation,
    decide_queue,
    parent_of,
)
from stromboli.lifecycle.world import Change, World

__all__ = ["QueueController"]

_QUEUE: Final = kinds.QUEUE.token
_DEEPEST: Final = 64
"""Admission allows 5 levels; one that was not asked may have let more in."""


class QueueController(Plain):
    name = "queue-controller"
    decides = _QUEUE
    reads = (_QUEUE, kinds.VC_POD_GROUP.token, kinds.COMMAND.token)
    ends_with_object = False

    def __init__(self) -> None:
        self._counts = GroupCounts()
        self._children: dict[str, set[str]] = {}

    def standing(self) -> Iterable[str]:
        return [_key(name) for name in ALWAYS_THERE]

    def touched_by(self, change: Change, world: World) -> Iterator[str]:  # noqa: ARG002 (all told)
        before, after = change.before, change.after
        if before is not None and after is not None and _counts_alike(before.object, after.object):
            return
        for number, entry in ((-1, change.before), (1, change.after)):
            item = entry.object if entry is not None else None
            if isinstance(item, PodGroup):
                yield _key(self._counts.add(item, number))
            elif isinstance(item, Queue):
                self._note_parent(item, known=number > 0)
        if change.kind == _QUEUE:
            yield from (_key(name) for name in sorted(self._children.get(change.place[1], ())))

    def _note_parent(self, queue: Queue, *, known: bool) -> None:
        parent = parent_of(queue)
        children = self._children.setdefault(parent, set())
        if known:
            children.add(queue.metadata.name)
        else:
            children.discard(queue.metadata.name)
        if not children:
            del self._children[parent]

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        queue: Queue | None = case.entry.object if case.entry is not None else None
        parent = world.find(_QUEUE, "", parent_of(queue)) if queue is not None else None
        commands = sorted(
            world.belongings(case.key, kinds.COMMAND.token),
            key=lambda c: (c.object.metadata.creation_timestamp or "", c.object.metadata.name),
        )
        situation = QueueSituation(
            name=case.name,
            queue=queue,
            parent=parent.object if parent is not None else None,
            is_in_a_circle=queue is not None and _is_in_a_circle(queue, world),
            counts=self._counts.of(case.name),
            commands=tuple(commands),
            now=case.now,
        )
        decide_queue(situation, asker)
        return NOTHING_MORE


def _is_in_a_circle(queue: Queue, world: World) -> bool:
    """Whether going up from a queue never ends; a missing parent is an end."""
    current = queue
    for _ in range(_DEEPEST):
        above = world.find(_QUEUE, "", parent_of(current))
        if above is None:
            return False
        if above.object.metadata.name == queue.metadata.name:
            return True
        current = above.object
    return True


def _counts_alike(before: object, after: object) -> bool:
    """Whether a PodGroup changed in nothing that its queue counts."""
    return (
        isinstance(before, PodGroup)
        and isinstance(after, PodGroup)
        and before.spec.queue == after.spec.queue
        and before.status.phase == after.status.phase
    )


def _key(name: str) -> str:
    return job_key(_QUEUE, "", name)
