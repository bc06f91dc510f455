"""Volcano's own figures for binpack (reference case G1), one pod and one node at a time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from stromboli.scheduling.plugins.binpack import build
from stromboli.scheduling.pods import TaskClass, read_task
from stromboli.scheduling.resources import Amounts, IntVector, amounts_of
from stromboli.testkit.scheduling_objects import pod

GPU, FOO = "nvidia.com/gpu", "example.com/foo"
NODES: dict[str, dict[str, str]] = {
    "n1": {"cpu": "2", "memory": "4Gi"},
    "n2": {"cpu": "4", "memory": "16Gi", GPU: "4"},
    "n3": {"cpu": "2", "memory": "4Gi", FOO: "16"},
}
PODS: dict[str, dict[str, str]] = {
    "p1": {"cpu": "1", "memory": "1Gi"},
    "p2": {"cpu": "1500m"},
    "p3": {"cpu": "2", "memory": "10Gi", GPU: "2"},
    "p4": {"cpu": "3", "memory": "4Gi", FOO: "3"},
}
RUNNING = {"n1": "p1", "n3": "p2"}

HEAVY = {
    "binpack.weight": 10,
    "binpack.cpu": 2,
    "binpack.memory": 3,
    "binpack.resources": f"{GPU}, {FOO}",
    f"binpack.resources.{GPU}": 7,
    f"binpack.resources.{FOO}": 8,
}
LIGHT = {
    "binpack.weight": 1,
    "binpack.cpu": 1,
    "binpack.memory": 1,
    "binpack.resources": GPU,
    f"binpack.resources.{GPU}": 23,
}


@dataclass
class Cluster:
    """The nodes as binpack is shown them, for a pod that asks for this."""

    request: Amounts
    kind: TaskClass = read_task(pod("any"), frozenset()).kind
    slots: IntVector = field(default_factory=lambda: np.arange(len(NODES), dtype=np.int64))

    def allocatable(self, resource: str) -> IntVector:
        return self._units(resource, NODES.values())

    def used(self, resource: str) -> IntVector:
        return self._units(resource, [PODS.get(RUNNING.get(name, ""), {}) for name in NODES])

    def _units(self, resource: str, amounts: Any) -> IntVector:
        found = [dict(amounts_of("it", one)).get(resource, 0) for one in amounts]
        return np.array(found, dtype=np.int64)


@pytest.mark.parametrize(
    ("arguments", "name", "scores"),
    [
        (HEAVY, "p1", [700, 137.5, 0]),
        (HEAVY, "p2", [0, 375, 0]),
        (HEAVY, "p3", [0, 531.25, 0]),
        (HEAVY, "p4", [0, 173.0769230769, 0]),
        (LIGHT, "p1", [75, 15.625, 0]),
        (LIGHT, "p2", [0, 37.5, 0]),
        (LIGHT, "p3", [0, 50.5, 0]),
        (LIGHT, "p4", [0, 50, 0]),
    ],
)
def test_binpack_gives_the_scores_of_volcano(
    arguments: dict[str, Any], name: str, scores: list[float]
):
    state = Cluster(amounts_of(name, PODS[name]))

    assert build(arguments).score(state).tolist() == pytest.approx(scores)
