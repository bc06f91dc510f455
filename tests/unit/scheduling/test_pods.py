from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.core import Container, ResourceRequirements
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.pods import TaskStatus, read_task
from stromboli.testkit.scheduling_objects import pod

OURS = frozenset({"volcano"})
GI = 1 << 30


def container(*, cpu: str, sidecar: bool = False) -> Container:
    return Container(
        resources=ResourceRequirements(requests={"cpu": cpu}),
        restart_policy="Always" if sidecar else None,
    )


def cpu_of(**spec: Any) -> int:
    found = pod("p", cpu="", memory="")
    return dict(read_task(replace(found, spec=replace(found.spec, **spec)), OURS).kind.request).get(
        "cpu", 0
    )


def test_containers_add_up_and_a_pod_counts_as_one():
    task = read_task(pod("p", cpu="1500m", memory="2Gi"), OURS)

    assert task.kind.request == (("cpu", 1500), ("memory", 2 * GI), ("pods", 1))


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([container(cpu="1"), container(cpu="2")], [], 3000),
        ([container(cpu="1")], [container(cpu="4"), container(cpu="3")], 4000),
        # A sidecar stays: it adds to the containers, and to init containers after it.
        ([container(cpu="1")], [container(cpu="1", sidecar=True)], 2000),
        ([container(cpu="1")], [container(cpu="1", sidecar=True), container(cpu="5")], 6000),
        ([container(cpu="1")], [container(cpu="5"), container(cpu="1", sidecar=True)], 5000),
    ],
)
def test_the_peak_of_containers_and_init_containers_counts(
    containers: list[Container], init: list[Container], expected: int
):
    assert cpu_of(containers=tuple(containers), init_containers=tuple(init)) == expected


def test_a_limit_stands_in_for_a_missing_request_and_overhead_is_added():
    limited = Container(resources=ResourceRequirements(limits={"cpu": "2"}))

    assert cpu_of(containers=(limited,), overhead={"cpu": "100m"}) == 2100


def test_pods_alike_share_their_class_and_others_do_not():
    one, two = (read_task(pod(name), OURS) for name in ("one", "two"))
    other = read_task(pod("three", node_selector={"a": "b"}), OURS)

    assert one.kind is two.kind
    assert other.kind != one.kind


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({}, TaskStatus.PENDING),
        ({"on": "n"}, TaskStatus.BOUND),
        ({"on": "n", "phase": "Running"}, TaskStatus.RUNNING),
        ({"on": "n", "phase": "Running", "ending": True}, TaskStatus.RELEASING),
        ({"on": "n", "phase": "Succeeded", "ending": True}, TaskStatus.SUCCEEDED),
        ({"on": "n", "phase": "Failed"}, TaskStatus.FAILED),
    ],
)
def test_how_far_a_pod_has_come(facts: dict[str, Any], status: TaskStatus):
    assert read_task(pod("p", **facts), OURS).status is status


def test_tasks_come_in_the_order_of_their_numbers():
    tasks = [read_task(pod(f"job-main-{number}"), OURS) for number in (10, 9, 1)]

    assert [task.name for task in sorted(tasks, key=lambda task: task.order)] == [
        "job-main-1",
        "job-main-9",
        "job-main-10",
    ]


@pytest.mark.parametrize("cpu", ["-1", "much", "9999999999999Ei"])
def test_a_request_that_makes_no_sense_is_refused(cpu: str):
    with pytest.raises(BadFact, match="cpu"):
        read_task(pod("p", cpu=cpu), OURS)
