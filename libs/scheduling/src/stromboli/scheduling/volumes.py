"""The volumes of pods: on which nodes they can be used, and how many of them a node can take.

A pod names claims; a bound claim leads to a volume, which may be bound to some nodes or to a
zone, and which takes one of the places for volumes of its driver on every node where it is
attached. `ClaimBook` is kept fact by fact and costs pods without claims nothing; `Volumes` is one
cycle's view of it, made when the first pod with a claim asks. The sentences are kube-scheduler's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stromboli.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim
from stromboli.scheduling.nodes import NodeFacts
from stromboli.scheduling.pods import Claim, Task, TaskClass
from stromboli.scheduling.resources import BoolPerNode, IntVector

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

__all__ = ["KINDS", "ClaimBook", "Move", "Volumes", "shares_zone"]

KINDS: Final = ("persistentvolumeclaim", "persistentvolume", "storageclass", "csinode")
"""What must be known to judge a pod with claims."""

Move: TypeAlias = tuple[Task, int, int]
"""A pod, the slot of its node, and 1 or -1: what a cycle has placed, or taken away."""
_Attached: TypeAlias = tuple[str, str]
"""Driver, and the volume's handle there."""

_DELAYED: Final = "WaitForFirstConsumer"
_ALONE: Final = "ReadWriteOncePod"
_ZONES: Final = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
"""Labels, and their older names."""
_BETWEEN_ZONES: Final = "__"
_NO_LIMIT: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class ClaimBook:
    """Which pods that stand on nodes use which claims."""

    users: dict[Claim, dict[str, str]] = field(default_factory=dict[Claim, dict[str, str]])
    """By claim: the node of each user, by uid."""

    def stands(self, task: Task) -> None:
        """The task is as it is: on a node, or not (any more)."""
        if task.takes_room:
            for claim in task.kind.claims:
                self.users.setdefault(claim, {})[task.uid] = task.node
        else:
            self.left(task)

    def left(self, task: Task) -> None:
        for claim in task.kind.claims:
            users = self.users.get(claim, {})
            users.pop(task.uid, None)
            if not users:
                self.users.pop(claim, None)


class Volumes:
    """One cycle's view: what each claim leads to, and what is attached where."""

    def __init__(self, session: "Session") -> None:
        self._nodes = session.nodes
        self._book = session.claim_book
        self._claims: Mapping[Claim, PersistentVolumeClaim] = session.objects(KINDS[0])
        self._volumes: Mapping[Claim, PersistentVolume] = session.objects(KINDS[1])
        self._classes = session.objects(KINDS[2])
        self._drivers = session.objects(KINDS[3])
        self._limits: dict[str, IntVector | None] = {}
        self._where: dict[_Attached, dict[int, int]] | None = None
        """By volume: how many users it has on each slot."""
        self._counts: dict[str, IntVector] = {}
        """By driver: how many volumes are attached to each node."""
        self._seen = 0

    # Claims.

    def problem(self, kind: TaskClass) -> str:
        """Why no node can help a pod of this class, in kube-scheduler's words."""
        return next(filter(None, map(self._problem, kind.claims)), "")

    def _problem(self, at: Claim) -> str:
        claim, name = self._claims.get(at), at[1]
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.metadata.deletion_timestamp:
            return f'persistentvolumeclaim "{name}" is being deleted'
        volume = claim.spec.volume_name
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            )
        if volume and self._volumes and ("", volume) not in self._volumes:
            # Where no volume is known at all, nobody told us of any.
            return f'persistentvolume "{volume}" not found'
        return ""

    def waits_for_binding(self, kind: TaskClass) -> bool:
        """Whether a claim must be bound before its pod has a node, and is not bound yet."""
        return any(self._is_unbound(claim) for claim in kind.claims)

    def _is_unbound(self, at: Claim) -> bool:
        claim = self._claims.get(at)
        if claim is None or claim.spec.volume_name:
            return False
        of_class = self._classes.get(("", claim.spec.storage_class_name or ""))
        return of_class is not None and of_class.volume_binding_mode != _DELAYED

    def _bound(self, kind: TaskClass) -> Iterable[PersistentVolume]:
        for at in kind.claims:
            claim = self._claims.get(at)
            volume = self._volumes.get(("", claim.spec.volume_name)) if claim else None
            if volume is not None:
                yield volume

    # Where a volume can be used.

    def selectors(self, kind: TaskClass) -> list[NodeSelector]:
        """What the volumes require of a node."""
        found = (volume.spec.node_affinity for volume in self._bound(kind))
        return [one.required for one in found if one is not None and one.required is not None]

    def zones(self, kind: TaskClass) -> tuple[tuple[str, frozenset[str]], ...]:
        """The labels of volumes that a node must share: key, and the values that will do."""
        return tuple(
            sorted(
                (
                    (key, frozenset(value.split(_BETWEEN_ZONES)))
                    for volume in self._bound(kind)
                    for key, value in volume.metadata.labels.items()
                    if key in _ZONES or key in _ZONES.values()
                ),
                key=lambda zone: (zone[0], sorted(zone[1])),
            )
        )

    # How many a node can take.

    def has_room_for(self, kind: TaskClass, moves: list[Move]) -> BoolPerNode | None:
        """Nodes that can attach what the pod brings along; None where nothing limits it."""
        by_driver: dict[str, dict[_Attached, None]] = {}
        for claim in kind.claims:
            volume = self._attached_as(claim)
            if volume is not None:
                by_driver.setdefault(volume[0], {})[volume] = None
        passes: BoolPerNode | None = None
        for driver, volumes in by_driver.items():
            limit = self._limit(driver)
            if limit is None:
                continue
            where = self._attached(moves)
            new = np.full(len(self._nodes), len(volumes), dtype=np.int64)
            for volume in volumes:
                new[list(where.get(volume, ()))] -= 1
            fits = (new <= 0) | (self._count(driver) + new <= limit)
            passes = fits if passes is None else passes & fits
        return passes

    def is_taken(self, kind: TaskClass, moves: list[Move]) -> bool:
        """Whether a claim that only one pod may use has a user."""
        return any(self._users(at, moves) > 0 for at in kind.claims if self._is_for_one(at))

    def _is_for_one(self, at: Claim) -> bool:
        claim = self._claims.get(at)
        return claim is not None and _ALONE in claim.spec.access_modes

    def _users(self, at: Claim, moves: list[Move]) -> int:
        on_trial = sum(sign for task, _, sign in moves if at in task.kind.claims)
        return len(self._book.users.get(at, ())) + on_trial

    def _attached_as(self, at: Claim) -> _Attached | None:
        """What a node attaches for a claim; for one that has no volume yet, what it will."""
        claim = self._claims.get(at)
        if claim is None:
            return None
        if not claim.spec.volume_name:
            of_class = self._classes.get(("", claim.spec.storage_class_name or ""))
            return (of_class.provisioner, "/".join(at)) if of_class is not None else None
        volume = self._volumes.get(("", claim.spec.volume_name))
        csi = volume.spec.csi if volume is not None else None
        return (csi.driver, csi.volume_handle) if csi is not None else None

    def _limit(self, driver: str) -> IntVector | None:
        """How many volumes of a driver each node can take; None if no node has a limit."""
        if driver not in self._limits:
            counts = {
                name: one.allocatable.count
                for (_, name), node in self._drivers.items()
                for one in node.spec.drivers
                if one.name == driver and one.allocatable is not None
            }
            limits = np.full(len(self._nodes), _NO_LIMIT, dtype=np.int64)
            for name, count in counts.items():
                slot = self._nodes.slot(name)
                if slot is not None and count is not None:
                    limits[slot] = count
            self._limits[driver] = limits if (limits < _NO_LIMIT).any() else None
        return self._limits[driver]

    def _attached(self, moves: list[Move]) -> Mapping[_Attached, Mapping[int, int]]:
        if self._where is None:
            self._where = {}
            for at, users in self._book.users.items():
                for node in users.values():
                    slot = self._nodes.slot(node)
                    if slot is not None:
                        self._note(self._where, at, slot, 1)
        for task, slot, sign in moves[self._seen :]:
            for at in task.kind.claims:
                self._note(self._where, at, slot, sign)
        self._seen = len(moves)
        return self._where

    def _note(
        self, where: dict[_Attached, dict[int, int]], at: Claim, slot: int, sign: int
    ) -> None:
        volume = self._attached_as(at)
        if volume is None:
            return
        users = where.setdefault(volume, {})
        before = users.get(slot, 0)
        users[slot] = before + sign
        if users[slot] <= 0:
            del users[slot]
        self._count(volume[0])[slot] += (slot in users) - (before > 0)

    def _count(self, driver: str) -> IntVector:
        if driver not in self._counts:
            self._counts[driver] = np.zeros(len(self._nodes), dtype=np.int64)
        return self._counts[driver]


def shares_zone(zones: tuple[tuple[str, frozenset[str]], ...]) -> Callable[[NodeFacts], bool]:
    """Whether a node is where the volumes are; a node that names no zone is everywhere."""
    known = {*_ZONES, *_ZONES.values()}

    def asks(node: NodeFacts) -> bool:
        labels = {key: value for key, value in node.labels if key in known}
        for newer, older in _ZONES.items():
            if newer in labels:
                labels.setdefault(older, labels[newer])
            elif older in labels:
                labels[newer] = labels[older]
        return not labels or all(labels.get(key) in values for key, values in zones)

    return asks
