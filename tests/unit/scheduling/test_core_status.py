"""Phases, counts and conditions of PodGroups."""

from msgspec.structs import replace

from stromboli.testkit.scheduling_objects import (
    gang,
    node,
)
from stromboli.testkit.small_clusters import (
    change,
    cluster,
    group,
    message,
)

# Status.


def test_counts_and_phases_follow_the_pods():
    simulation = cluster(node("n1"), gang("a", 2))
    change(simulation, "a-main-0", phase="Running")
    change(simulation, "a-main-1", phase="Running")
    assert (group(simulation, "a").status.phase, group(simulation, "a").status.running) == (
        "Running",
        2,
    )
    change(simulation, "a-main-0", phase="Succeeded")
    change(simulation, "a-main-1", phase="Failed")
    status = group(simulation, "a").status

    assert status.phase == "Completed"
    assert (status.running, status.succeeded, status.failed) == (0, 1, 1)


def test_a_running_gang_that_lost_a_pod_is_unknown():
    simulation = cluster(node("n1"), gang("a", 2))
    for name in ("a-main-0", "a-main-1"):
        change(simulation, name, phase="Running")
    simulation.delete("pod", "test", "a-main-1")
    simulation.run()
    simulation.advance(2)

    assert group(simulation, "a").status.phase == "Unknown"
    assert "pod group is not ready, 1 Running, 2 minAvailable" in message(simulation, "a")


def test_the_end_of_a_job_reads_as_in_volcano():
    """The words of a real cluster: one task succeeded, the others are being removed."""
    simulation = cluster(node("n1"), gang("mpi", 4))
    change(simulation, "mpi-main-0", phase="Succeeded")
    for number in (1, 2, 3):
        name = f"mpi-main-{number}"
        found = simulation.get("pod", "test", name)
        metadata = replace(found.metadata, deletion_timestamp="2030-01-01T00:00:10Z")
        simulation.put(replace(found, metadata=metadata))
    simulation.run()
    simulation.advance(2)

    assert message(simulation, "mpi").startswith(
        "3/4 tasks in gang unschedulable: pod group is not ready, "
        "1 Succeeded, 3 Releasing, 4 minAvailable"
    )
    types = [condition.type for condition in group(simulation, "mpi").status.conditions]
    assert types == ["Scheduled", "Unschedulable"]


def test_the_same_reason_is_not_written_again_with_other_numbers_at_once():
    simulation = cluster(node("n1", cpu="4"), gang("first", 3), gang("second", 3))
    first = message(simulation, "second")
    assert first
    change(simulation, "first-main-0", phase="Succeeded")
    assert message(simulation, "second") == first

    simulation.advance(31)
    simulation.safety_pass()
    assert message(simulation, "second") != first
