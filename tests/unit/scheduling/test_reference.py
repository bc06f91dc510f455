"""The core against a scheduler that is as plain as can be: no arrays, one pod after the other."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, queue
from stromboli.testkit.simulation import Simulation


@dataclass
class PlainNode:
    name: str
    cpu: int
    memory: int
    pods: int
    used_cpu: int = 0
    used_memory: int = 0
    used_pods: int = 0

    def fits(self, cpu: int, memory: int) -> bool:
        return (
            self.used_cpu + cpu <= self.cpu
            and self.used_memory + memory <= self.memory
            and self.used_pods < self.pods
        )

    def score(self, cpu: int, memory: int) -> float:
        full_cpu = min((self.used_cpu + cpu) / self.cpu, 1.0)
        full_memory = min((self.used_memory + memory) / self.memory, 1.0)
        left = 100.0 * (1.0 - (full_cpu + full_memory) / 2.0)
        balanced = (1.0 - abs(full_cpu - full_memory) / 2.0) * 100.0
        return left + balanced

    def take(self, cpu: int, memory: int, sign: int = 1) -> None:
        self.used_cpu += sign * cpu
        self.used_memory += sign * memory
        self.used_pods += sign


@dataclass
class PlainScheduler:
    nodes: list[PlainNode]
    binds: dict[str, str] = field(default_factory=dict[str, str])

    def place(self, name: str, cpu: int, memory: int) -> bool:
        open_nodes = [n for n in self.nodes if n.fits(cpu, memory)]
        if not open_nodes:
            return False
        chosen = min(open_nodes, key=lambda n: (-n.score(cpu, memory), n.name))
        chosen.take(cpu, memory)
        self.binds[name] = chosen.name
        return True

    def place_gang(self, name: str, size: int, least: int, cpu: int, memory: int) -> int:
        """How many of the minimum found a place; all or none of them keep it."""
        pods = [f"{name}-main-{number}" for number in range(least)]
        if all(self.place(pod, cpu, memory) for pod in pods):
            return least
        by_name = {n.name: n for n in self.nodes}
        for pod in pods:
            if pod in self.binds:
                by_name[self.binds.pop(pod)].take(cpu, memory, sign=-1)
        return 0


sizes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12))
wishes = st.tuples(st.integers(1, 12), st.integers(0, 12), st.integers(1, 4), st.integers(1, 4))


@given(st.lists(sizes, min_size=1, max_size=6), st.lists(wishes, max_size=5))
@settings(max_examples=examples(90), deadline=None)
def test_whole_gangs_and_then_extras_land_where_the_plain_scheduler_puts_them(
    nodes: list[Any], jobs: list[Any]
):
    plain = PlainScheduler(
        [
            PlainNode(f"n{number}", 1000 * cpu, memory << 30, pods)
            for number, (cpu, memory, pods) in enumerate(nodes)
        ]
    )
    simulation = Simulation(SchedulerCore(PLAIN))
    simulation.put(queue())
    for number, (cpu, memory, pods) in enumerate(nodes):
        simulation.put(node(f"n{number}", cpu=str(cpu), memory=f"{memory}Gi", pods=str(pods)))
    started: list[tuple[str, int, int, int, int]] = []
    for number, (size, wanted, cpu, memory) in enumerate(jobs):
        name, least = f"job{number}", min(size, wanted)
        for item in gang(name, size, min_member=least, cpu=str(cpu), memory=f"{memory}Gi"):
            simulation.put(item)
    simulation.run()
    # Gangs that have a minimum come first, in the order of their names; then everybody's extras.
    for number, (size, wanted, cpu, memory) in enumerate(jobs):
        name, least = f"job{number}", min(size, wanted)
        asked = (1000 * cpu, memory << 30)
        if not least or plain.place_gang(name, size, least, *asked):
            started.append((name, least, size, *asked))
    for name, least, size, cpu, memory in started:
        for extra in range(least, size):
            plain.place(f"{name}-main-{extra}", cpu, memory)

    assert {name: on for (_, name), on in simulation.binds.items()} == plain.binds
