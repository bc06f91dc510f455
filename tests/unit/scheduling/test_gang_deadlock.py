"""Five jobs of 2 ps and 4 workers, where two fit: with gangs all finish, without they deadlock."""

from typing import Any

from msgspec.structs import replace

from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.scheduling_objects import node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation

WITH_GANGS = read_conf("""
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: nodeorder}]
""")
WITHOUT = read_conf("""
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: drf}, {name: predicates}, {name: nodeorder}]
""")
JOBS, PS, WORKERS = 5, 2, 4
PODS = PS + WORKERS


def job(number: int) -> list[KubeObject]:
    name = f"tf{number}"
    made: list[KubeObject] = [pod_group(name, min_member=PODS)]
    for role, count in (("ps", PS), ("worker", WORKERS)):
        made += [pod(f"{name}-{role}-{n}", group=name, role=role) for n in range(count)]
    return made


def pods_of(simulation: Simulation, number: int) -> list[Any]:
    return [
        item
        for (kind, _, name), item in simulation.objects.items()
        if kind == "pod" and name.startswith(f"tf{number}-")
    ]


def started(simulation: Simulation, number: int) -> bool:
    return all(item.spec.node_name for item in pods_of(simulation, number))


def finish_those_that_started(simulation: Simulation, done: list[int]) -> None:
    """A job runs only when all its pods do; then it ends and leaves its room."""
    for number in range(JOBS):
        if number not in done and started(simulation, number):
            done.append(number)
            for item in pods_of(simulation, number):
                simulation.put(replace(item, status=replace(item.status, phase="Succeeded")))
    simulation.run()


def trace(conf: Any) -> tuple[Simulation, list[int]]:
    simulation = Simulation(SchedulerCore(conf))
    simulation.put(queue())
    for number in range(3):
        simulation.put(node(f"n{number}", cpu=str(2 * PODS // 3), memory="64Gi"))
    for number in range(JOBS):
        for item in job(number):
            simulation.put(item)
    simulation.run()
    done: list[int] = []
    for _ in range(JOBS):
        simulation.advance(60)
        finish_those_that_started(simulation, done)
    return simulation, done


def test_with_gangs_every_job_finishes_and_nobody_holds_room_in_vain():
    simulation, done = trace(WITH_GANGS)

    assert sorted(done) == list(range(JOBS))
    assert len(simulation.binds) == JOBS * PODS


def test_with_gangs_a_job_that_can_not_start_holds_nothing():
    simulation = Simulation(SchedulerCore(WITH_GANGS))
    simulation.put(queue())
    simulation.put(node("n1", cpu=str(2 * PODS), memory="64Gi"))
    for number in range(JOBS):
        for item in job(number):
            simulation.put(item)
    simulation.run()

    held = [sum(bool(p.spec.node_name) for p in pods_of(simulation, n)) for n in range(JOBS)]
    assert sorted(held) == [0, 0, 0, PODS, PODS]


def test_without_gangs_all_hold_a_part_and_none_can_start():
    simulation, done = trace(WITHOUT)

    assert done == []
    held = [sum(bool(p.spec.node_name) for p in pods_of(simulation, n)) for n in range(JOBS)]
    assert sum(held) == 2 * PODS
    assert all(0 < part < PODS for part in held)
