"""A small cluster of nodes and gangs that adds up every node after every change.

Pods are started by a kubelet that only pretends, and made again by a controller that only
pretends, when one of a gang was evicted. All pods ask for one cpu, so that a gang fits exactly if
there are as many cpus free as it has pods.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.api.wellknown import GROUP_NAME, SCHEDULER_NAME
from stromboli.testkit.memory_cluster import Event, MemoryCluster, Place

__all__ = ["GangsOnNodes", "OverCommitted"]

NAMESPACE: Final = "test"
_GRACE_S: Final = 2
_STARTS_S: Final = (0.05, 1.0)
_MADE_AGAIN_S: Final = (0.1, 1.0)


class OverCommitted(AssertionError):
    """Pods that ask for more than a node has are bound to it."""


@dataclass(slots=True)
class _Gang:
    size: int
    half_bound_since: float | None = None
    longest_half_bound_s: float = 0.0


@dataclass(slots=True)
class GangsOnNodes:
    """The nodes, the gangs that are wanted, and what was seen of them."""

    cluster: MemoryCluster
    rng: random.Random
    cpus: dict[str, int]
    """What each node has."""
    gangs: dict[str, _Gang] = field(default_factory=dict[str, _Gang])
    over_committed: list[str] = field(default_factory=list[str])
    evictions: int = 0
    binds: int = 0

    def __post_init__(self) -> None:
        self.cluster.observers.append(self._observe)
        for name, cpus in self.cpus.items():
            offered = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
            self.cluster.put(
                "nodes",
                {
                    "metadata": {"name": name},
                    "spec": {},
                    "status": {"allocatable": offered, "capacity": offered},
                },
            )
        self.cluster.put(
            "queues",
            {
                "metadata": {"name": "default"},
                "spec": {"weight": 1},
                "status": {"state": "Open"},
            },
        )

        self.cluster.put("priorityclasses", {"metadata": {"name": "high"}, "value": 1000})

    # What users do.

    def want(self, name: str, size: int, *, priority: str = "") -> None:
        """Somebody submits a gang."""
        self.gangs[name] = _Gang(size)
        spec: dict[str, Any] = {"minMember": size, "queue": "default"}
        if priority:
            spec["priorityClassName"] = priority
        self.cluster.put(
            "podgroups",
            {
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": spec,
                "status": {"phase": "Inqueue"},
            },
        )
        for number in range(size):
            self._make(name, f"{name}-{number}")

    def drop(self, name: str) -> None:
        """Somebody deletes a gang."""
        del self.gangs[name]
        for place, pod in self._pods():
            if _gang_of(pod) == name:
                self.cluster.end_pod(place, _GRACE_S)
        self.cluster.remove(("podgroups", NAMESPACE, name))

    def _make(self, gang: str, name: str) -> None:
        container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        self.cluster.put(
            "pods",
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "annotations": {GROUP_NAME: gang},
                },
                "spec": {
                    "schedulerName": SCHEDULER_NAME,
                    "containers": [container],
                    "terminationGracePeriodSeconds": _GRACE_S,
                },
                "status": {"phase": "Pending"},
            },
        )

    # What was seen.

    def _pods(self) -> list[tuple[Place, dict[str, Any]]]:
        return [(("pods", *key), pod) for key, pod in self.cluster.objects("pods").items()]

    def _observe(self, event: Event) -> None:
        if event.place[0] != "pods":
            return
        pod = event.document
        loop, context = asyncio.get_running_loop(), self.cluster.context
        if event.type == "DELETED":
            self.evictions += 1
            delay_s = self.rng.uniform(*_MADE_AGAIN_S)
            loop.call_later(delay_s, self._make_again, event.place, pod, context=context)
        elif (node := pod["spec"].get("nodeName")) and pod["status"]["phase"] == "Pending":
            self.binds += 1
            self._add_up(node, event)
            if "deletionTimestamp" not in pod["metadata"]:
                delay_s = self.rng.uniform(*_STARTS_S)
                loop.call_later(delay_s, self._start, event.place, pod, context=context)
        if (gang := _gang_of(pod)) in self.gangs:
            self._note(self.gangs[gang], self.bound(gang))

    def _add_up(self, node: str, event: Event) -> None:
        there = sorted(
            place[2] for place, pod in self._pods() if pod["spec"].get("nodeName") == node
        )
        if len(there) > self.cpus[node]:
            at = asyncio.get_running_loop().time()
            self.over_committed.append(
                f"at {at:.3f} s {event.place[2]} came to {node}, which has {self.cpus[node]} cpus, "
                f"and now {there}"
            )

    def _note(self, gang: _Gang, bound: int) -> None:
        now = asyncio.get_running_loop().time()
        if 0 < bound < gang.size:
            gang.half_bound_since = now if gang.half_bound_since is None else gang.half_bound_since
        elif gang.half_bound_since is not None:
            lasted = now - gang.half_bound_since
            gang.longest_half_bound_s = max(gang.longest_half_bound_s, lasted)
            gang.half_bound_since = None

    def _start(self, place: Place, pod: dict[str, Any]) -> None:
        found = self.cluster.objects("pods").get(place[1:])
        if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"]:
            self.cluster.merge(place, {"status": {"phase": "Running"}})

    def _make_again(self, place: Place, pod: dict[str, Any]) -> None:
        gang = _gang_of(pod)
        if gang in self.gangs and place[1:] not in self.cluster.objects("pods"):
            self._make(gang, place[2])

    def bound(self, gang: str) -> int:
        """How many of its pods are on a node and not on their way out."""
        return sum(
            1
            for _, pod in self._pods()
            if _gang_of(pod) == gang
            and pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
        )

    @property
    def free(self) -> int:
        """Cpus that nobody holds."""
        held = sum(1 for _, pod in self._pods() if pod["spec"].get("nodeName"))
        return sum(self.cpus.values()) - held

    def unsettled(self) -> list[str]:
        """Gangs that are half bound, or would fit and are not bound."""
        bound = {name: self.bound(name) for name in self.gangs}
        return [
            f"{name} has {bound[name]} of {gang.size} pods bound, {self.free} cpus are free"
            for name, gang in self.gangs.items()
            if 0 < bound[name] < gang.size or (not bound[name] and gang.size <= self.free)
        ]


def _gang_of(pod: dict[str, Any]) -> str:
    return (pod["metadata"].get("annotations") or {}).get(GROUP_NAME, "")
