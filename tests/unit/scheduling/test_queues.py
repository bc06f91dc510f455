"""What the scheduler reads out of a Queue."""

from typing import Any

import pytest

from stromboli.scheduling.queues import read_queue
from stromboli.testkit.scheduling_objects import queue


def test_a_bare_queue_is_open_and_gives_back_what_it_borrows():
    found = read_queue(queue("a", state=""))

    assert (found.is_open, found.weight, found.reclaimable, found.problem) == (True, 1, True, "")


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_any_other_state_is_not_open(state: str):
    assert not read_queue(queue("a", state=state)).is_open


def test_amounts_are_in_base_units():
    found = read_queue(
        queue(
            "a",
            capability={"cpu": "1500m", "memory": "1Gi"},
            deserved={"cpu": "1", "nvidia.com/gpu": "2"},
            guarantee={"cpu": "500m"},
        )
    )

    assert found.capability == (("cpu", 1500), ("memory", 1 << 30))
    assert found.deserved == (("cpu", 1000), ("nvidia.com/gpu", 2000))
    assert found.guarantee == (("cpu", 500),)


def test_a_capability_of_zero_forbids_a_device_but_says_nothing_of_cpu_and_memory():
    found = read_queue(queue("a", capability={"cpu": "0", "memory": "0", "nvidia.com/gpu": "0"}))

    assert found.capability == (("nvidia.com/gpu", 0),)


@pytest.mark.parametrize("spec", ["capability", "deserved", "guarantee"])
def test_what_cannot_be_reckoned_with_is_the_queues_problem(spec: str):
    bad: dict[str, Any] = {spec: {"cpu": "-1"}}

    found = read_queue(queue("a", **bad))

    assert found.name == "a"
    assert found.problem == f"queue a: {spec} is set aside: cpu is '-1', expected 0 or more"


def test_a_path_is_read_from_annotations():
    found = read_queue(
        queue(
            "a",
            annotations={
                "volcano.sh/hierarchy": "root/eng/dev",
                "volcano.sh/hierarchy-weights": "100/0.5",
            },
        )
    )

    assert found.hierarchy == ("root", "eng", "dev")
    assert found.hierarchy_weights == (100.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("path", "weights", "said"),
    [
        ("root//dev", "1/1", "expected names with single slashes between"),
        ("root/dev", "1/many", "'many', expected a number such as 50"),
        ("root/dev", "1/nan", "'nan', expected a number such as 50"),
    ],
)
def test_a_path_that_cannot_be_read_is_the_queues_problem(path: str, weights: str, said: str):
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}

    assert said in read_queue(queue("a", annotations=annotations)).problem


def test_strategy_and_policy_are_read():
    found = read_queue(
        queue("a", dequeue_strategy="fifo", annotations={"stromboli.sh/policy": "fair"})
    )

    assert (found.strict_order, found.policy) == (True, "fair")
    assert not read_queue(queue("a", dequeue_strategy="traverse")).strict_order
