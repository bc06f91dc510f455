"""The nodes as arrays: one column per node, one row per resource, in base units.

Columns are in the order of node names, so that "the first of equals" is the first by name.
A node that comes is appended and a node that goes is marked; `settle` puts the columns back in
order before anybody looks. Facts about a node that are not amounts (labels, taints) have a
version per column, so that what was derived from them is renewed only where they changed.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from stromboli.api.core import Node, Taint
from stromboli.api.wellknown import (
    OFFLINE_JOB_EVICTING,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_CPU,
    OVERSUBSCRIPTION_MEMORY,
)
from stromboli.scheduling.resources import (
    CPU,
    MEMORY,
    Amounts,
    IntMatrix,
    IntVector,
    ResourceIndex,
    added,
    amounts_of,
    tallied,
)

__all__ = ["NodeFacts", "NodeTable", "assumed_of", "read_node"]

_FIRST_COLUMNS: Final = 16
_ASSUMED: Final = ((CPU, 100), (MEMORY, 200 * 2**20))
"""What Kubernetes' scores take a pod to use of what it does not ask for."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a constraint can ask about a node."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    images: tuple[tuple[str, int], ...] = ()
    """Names, with a tag or a digest, and bytes."""


def read_node(node: Node) -> tuple[NodeFacts, Amounts]:
    """Raises BadFact for amounts that can't be reckoned with."""
    metadata = node.metadata
    ready = all(
        condition.status == "True"
        for condition in node.status.conditions
        if condition.type == "Ready"
    )
    facts = NodeFacts(
        name=metadata.name,
        labels=tuple(sorted(metadata.labels.items())),
        # When a taint was added is nobody's constraint.
        taints=tuple(
            Taint(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in node.spec.taints
        ),
        unschedulable=node.spec.unschedulable,
        # A node that has not spoken yet is as good as any; one that said "not ready" is not.
        ready=ready and not metadata.deletion_timestamp,
        images=tuple(
            (name, image.size_bytes) for image in node.status.images for name in image.names
        ),
    )
    what = f"node {metadata.name}"
    offered = amounts_of(what, node.status.allocatable)
    return facts, added((offered, _lent_twice(what, node)))


def _lent_twice(what: str, node: Node) -> Amounts:
    """What a node's agent says can be used although others have asked for it."""
    labels, said = node.metadata.labels, node.metadata.annotations
    if labels.get(OVERSUBSCRIPTION) != "true" or labels.get(OFFLINE_JOB_EVICTING) == "true":
        return ()
    named = ((CPU, OVERSUBSCRIPTION_CPU), (MEMORY, OVERSUBSCRIPTION_MEMORY))
    return amounts_of(
        f"{what}: oversubscription",
        {name: _milli(name, said[key]) for name, key in named if said.get(key)},
    )


def _milli(resource: str, text: str) -> str:
    """The agent writes plain numbers: thousandths of a cpu, bytes of memory."""
    return f"{text}m" if resource == CPU and text.isdecimal() else text


def assumed_of(request: Amounts) -> tuple[int, int]:
    """How much cpu and memory a pod with this request is taken to use beyond it, for scores."""
    asked = dict(request)
    (cpu, milli), (memory, size) = _ASSUMED
    return (0 if asked.get(cpu) else milli, 0 if asked.get(memory) else size)


class NodeTable:
    """What every node offers and what is taken of it."""

    def __init__(self, resources: ResourceIndex) -> None:
        self.resources = resources
        self.facts: list[NodeFacts] = []
        self.layout = 0
        """Changes whenever a column's meaning does; what is kept per column dies with it."""
        self._slots: dict[str, int] = {}
        self._in_order = True
        self._allocatable = self._blank()
        self._used = self._blank()
        self._releasing = self._blank()
        self._assumed = np.zeros((2, _FIRST_COLUMNS), dtype=np.int64)
        self._versions = np.zeros(_FIRST_COLUMNS, dtype=np.int64)
        self.version = 0

    def __len__(self) -> int:
        return len(self.facts)

    def __contains__(self, name: str) -> bool:
        return name in self._slots

    @property
    def names(self) -> list[str]:
        return [facts.name for facts in self.facts]

    def slot(self, name: str) -> int | None:
        return self._slots.get(name)

    # Views of the arrays: exactly the resources and nodes there are.

    @property
    def allocatable(self) -> IntMatrix:
        return self._seen(self._allocatable)

    @property
    def used(self) -> IntMatrix:
        """By running pods, by ending ones, and by what was asked for but not yet seen."""
        return self._seen(self._used)

    @property
    def releasing(self) -> IntMatrix:
        """The part of `used` that belongs to pods that are ending."""
        return self._seen(self._releasing)

    @property
    def assumed(self) -> IntMatrix:
        """Cpu and memory that pods there are taken to use though they do not ask for it."""
        return self._assumed[:, : len(self.facts)]

    @property
    def idle(self) -> IntMatrix:
        return self.allocatable - self.used

    @property
    def versions(self) -> IntVector:
        """Per column, the `version` at which its facts last changed."""
        return self._versions[: len(self.facts)]

    # Changes.

    def put(self, facts: NodeFacts, allocatable: Amounts) -> None:
        """A node is there, or is different now. What it is used for is told separately."""
        vector = self.resources.vector(allocatable)
        slot = self._slots.get(facts.name)
        if slot is None:
            slot = len(self.facts)
            self._in_order = self._in_order and (not slot or self.facts[-1].name < facts.name)
            self.facts.append(facts)
            self._slots[facts.name] = slot
            self._make_room()
            self._used[:, slot] = 0
            self._assumed[:, slot] = 0
            self._releasing[:, slot] = 0
            self.layout += 1
            self._touch(slot)
        elif self.facts[slot] != facts:
            self.facts[slot] = facts
            self._touch(slot)
        self._make_room()
        self._allocatable[:, slot] = 0
        self._allocatable[: len(vector), slot] = vector

    def remove(self, name: str) -> None:
        gone = self._slots.pop(name, None)
        if gone is None:
            return
        keep = [slot for slot in range(len(self.facts)) if slot != gone]
        self._rearrange(keep)

    def take(self, name: str, amounts: Amounts, *, ending: bool = False, sign: int = 1) -> None:
        """Count a pod's request on its node, or with sign -1 stop counting it."""
        slot = self._slots.get(name)
        if slot is None:
            return
        vector = self.resources.vector(amounts)
        self._make_room()
        taken = vector if sign > 0 else -vector
        self._used[: len(taken), slot] += taken
        if ending:
            self._releasing[: len(taken), slot] += taken
        if not vector[0] or not vector[1]:  # of cpu and memory
            cpu, memory = assumed_of(amounts)
            self._assumed[:, slot] += sign * cpu, sign * memory

    def take_many(self, slots: IntVector, request: IntVector) -> None:
        """Count one request for each of these slots; a slot may appear more than once."""
        self._make_room()
        if not request[0] or not request[1]:
            cpu, memory = assumed_of(((CPU, int(request[0])), (MEMORY, int(request[1]))))
            which, times = tallied(slots)
            self._assumed[:, which] += np.array([[cpu], [memory]]) * times
        if len(slots) == 1:
            self._used[: len(request), slots[0]] += request
            return
        which, times = tallied(slots)
        self._used[: len(request), which] += request[:, None] * times[None, :]

    def settle(self) -> None:
        """Put the columns in the order of names, and have a row for every known resource."""
        self._make_room()
        if not self._in_order:
            self._rearrange(sorted(range(len(self.facts)), key=lambda slot: self.facts[slot].name))
            self._in_order = True

    # Storage.

    def _seen(self, array: IntMatrix) -> IntMatrix:
        return array[: len(self.resources), : len(self.facts)]

    def _touch(self, slot: int) -> None:
        self.version += 1
        self._versions[slot] = self.version

    def _blank(self, columns: int = _FIRST_COLUMNS) -> IntMatrix:
        return np.zeros((max(8, len(self.resources)), columns), dtype=np.int64)

    def _make_room(self) -> None:
        rows, columns = self._allocatable.shape
        if len(self.resources) <= rows and len(self.facts) <= columns:
            return
        more_rows = rows if len(self.resources) <= rows else 2 * len(self.resources)
        more_columns = columns if len(self.facts) <= columns else 2 * len(self.facts)
        shape = ((0, more_rows - rows), (0, more_columns - columns))
        self._allocatable = np.pad(self._allocatable, shape)
        self._used = np.pad(self._used, shape)
        self._releasing = np.pad(self._releasing, shape)
        self._assumed = np.pad(self._assumed, ((0, 0), shape[1]))
        self._versions = np.pad(self._versions, (0, more_columns - columns))

    def _rearrange(self, order: list[int]) -> None:
        columns = self._allocatable.shape[1]
        padding = ((0, 0), (0, columns - len(order)))
        self._allocatable = np.pad(self._allocatable[:, order], padding)
        self._used = np.pad(self._used[:, order], padding)
        self._releasing = np.pad(self._releasing[:, order], padding)
        self._assumed = np.pad(self._assumed[:, order], padding)
        self._versions = np.pad(self._versions[order], (0, columns - len(order)))
        self.facts = [self.facts[slot] for slot in order]
        self._slots = {facts.name: slot for slot, facts in enumerate(self.facts)}
        self.layout += 1
