"""Small clusters for tests of the scheduler's core: objects in, and a look at what came of them."""

from typing import Any, Final

from msgspec.structs import replace

from stromboli.api.meta import KubeObject
from stromboli.api.resources import to_base_units
from stromboli.api.scheduling import PodGroup
from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.testkit.scheduling_objects import PLAIN, queue
from stromboli.testkit.simulation import Simulation

__all__ = [
    "add",
    "bound",
    "change",
    "cluster",
    "code",
    "core_of",
    "group",
    "message",
    "overcommitted",
]

_ENDED: Final = ("Succeeded", "Failed")


def cluster(
    *objects: KubeObject | list[KubeObject], conf: SchedulingConf = PLAIN, **options: Any
) -> Simulation:
    """A core that has decided about these, with the default queue."""
    simulation = Simulation(SchedulerCore(conf), **options)
    simulation.put(queue())
    add(simulation, *objects)
    return simulation


def add(simulation: Simulation, *objects: KubeObject | list[Any]) -> None:
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            simulation.put(one)
    simulation.run()


def core_of(simulation: Simulation) -> SchedulerCore:
    assert isinstance(simulation.core, SchedulerCore)
    return simulation.core


def group(simulation: Simulation, name: str) -> PodGroup:
    return simulation.get("vcpodgroup", "test", name)


def message(simulation: Simulation, name: str) -> str:
    """Of the PodGroup's condition Unschedulable."""
    conditions = group(simulation, name).status.conditions
    return next((c.message for c in conditions if c.type == "Unschedulable"), "")


def code(simulation: Simulation, name: str) -> Code | None:
    explanation = core_of(simulation).explanations.get(("test", name))
    return explanation.code if explanation else None


def bound(simulation: Simulation) -> dict[str, str]:
    """Nodes by the names of pods."""
    return {name: node for (_, name), node in simulation.binds.items()}


def change(simulation: Simulation, name: str, **status: Any) -> None:
    """A pod's status changes."""
    found = simulation.get("pod", "test", name)
    simulation.put(replace(found, status=replace(found.status, **status)))
    simulation.run()


def overcommitted(simulation: Simulation) -> list[str]:
    """Nodes that hold more than they have, in any dimension, reckoned from the objects alone.

    What strangers took by themselves does not count, unless one of ours asked for it there too.
    """
    taken: dict[tuple[str, str], int] = {}
    ours: set[tuple[str, str]] = set()
    for (kind, _, _), item in simulation.objects.items():
        if kind != "pod" or not item.spec.node_name or item.status.phase in _ENDED:
            continue
        at = item.spec.node_name
        requests = {"pods": "1"}
        for container in item.spec.containers:
            requests |= container.resources.requests
        for resource, amount in requests.items():
            units = to_base_units(resource, amount)
            taken[at, resource] = taken.get((at, resource), 0) + units
            if item.spec.scheduler_name == SCHEDULER_NAME:
                ours.add((at, resource))
    found: list[str] = []
    for (at, resource), units in sorted(taken.items()):
        node = simulation.objects.get(("node", "", at))
        has = to_base_units(resource, node.status.allocatable.get(resource, "0")) if node else 0
        if (at, resource) in ours and units > has:
            found.append(f"{at} has {has} {resource}, {units} are taken")
    return found
