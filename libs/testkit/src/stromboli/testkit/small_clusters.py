"""Small clusters for tests of the scheduler's core: objects in, and a look at what came of them."""

from typing import Any

from msgspec.structs import replace

from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import PodGroup
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.testkit.scheduling_objects import PLAIN, queue
from stromboli.testkit.simulation import Simulation

__all__ = ["add", "bound", "change", "cluster", "code", "core_of", "group", "message"]


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
