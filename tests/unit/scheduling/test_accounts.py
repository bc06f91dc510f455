"""What jobs hold, are promised, and hold beyond that."""

import pytest

from stromboli.api.core import PodSchedulingGate
from stromboli.api.scheduling import PodGroup
from stromboli.scheduling.accounts import Accounts, add, claims_of
from stromboli.scheduling.jobs import Job
from stromboli.scheduling.pods import read_task
from stromboli.testkit.scheduling_objects import pod, pod_group

VOLCANO = frozenset({"volcano"})


def job(phase: str, *, least: str = "4", size: int = 3, on_nodes: int = 0, gated: int = 0) -> Job:
    group: PodGroup = pod_group(
        "g", min_member=2, phase=phase, min_resources={"cpu": least, "memory": "1Gi"}
    )
    found = Job(("test", "g"))
    found.read(group, "1")
    for number in range(size):
        gates = (PodSchedulingGate(name="wait"),) if number >= size - gated else ()
        item = pod(
            f"g-main-{number}",
            group="g",
            memory="",
            on="n1" if number < on_nodes else "",
            phase="Running" if number < on_nodes else "Pending",
        )
        if gates:
            item = pod(f"g-main-{number}", group="g", memory="", scheduling_gates=gates)
        found.put(read_task(item, VOLCANO))
    return found


def cpus(sums: dict[str, int]) -> int:
    return sums.get("cpu", 0)


@pytest.mark.parametrize(
    ("phase", "on_nodes", "promised"),
    [
        ("Pending", 0, 0),
        ("Inqueue", 0, 4000),
        ("Inqueue", 1, 3000),
        ("Running", 1, 0),
        ("Running", 2, 2000),
        ("Running", 3, 1000),
        ("Completed", 0, 0),
    ],
)
def test_who_was_admitted_is_promised_what_it_does_not_hold(
    phase: str, on_nodes: int, promised: int
):
    """One that runs and has lost part of its gang is promised nothing: it may be finishing."""
    assert cpus(claims_of(job(phase, on_nodes=on_nodes))[0]) == promised


def test_gated_pods_want_nothing_yet():
    assert cpus(claims_of(job("Inqueue", gated=1))[0]) == 3000


def test_what_is_held_beyond_the_minimum_is_elastic():
    promised, elastic = claims_of(job("Running", least="2", on_nodes=3))

    assert (cpus(promised), cpus(elastic)) == (0, 1000)


def test_sums_that_become_nothing_disappear():
    sums = {"cpu": 2}

    add(sums, (("cpu", 2), ("memory", 1)), -1)

    assert sums == {"memory": -1}


def test_what_a_cycle_does_counts_for_the_queues_above_too():
    accounts = Accounts(lambda queue: ("root", queue))

    accounts.place("a", (("cpu", 2),), 3)
    accounts.place("b", (("cpu", 2),), -1)
    accounts.admit("a", (("cpu", 5),))

    assert accounts.allocated("root") == {"cpu": 4}
    assert accounts.allocated("a") == {"cpu": 6}
    assert accounts.spoken_for("root") == {"cpu": 9}
