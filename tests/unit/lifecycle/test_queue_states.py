"""Queues open and close, alone and with their parents."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.lifecycle.controllers.registry import CONTROLLERS, kinds_read_by
from stromboli.lifecycle.core import LifecycleCore
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.simulated_gateway import SimulatedGateway

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"


class Orders:
    """A person with `vcctl queue operate`."""

    def __init__(self, scenario: JobScenario) -> None:
        self.scenario = scenario
        self.number = 0

    def queue(self, name: str, parent: str = "", **more: Any) -> None:
        spec = {"parent": parent} if parent else {}
        self.scenario.gateway.put("queue", {"metadata": {"name": name}, "spec": spec, **more})
        self.scenario.settle()

    def give(self, action: str, name: str, *, uid: str = "") -> None:
        queue = self.scenario.gateway.get("queue", name)
        assert queue is not None
        self.number += 1
        target = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "name": name,
            "uid": uid or queue["metadata"]["uid"],
        }
        command = {
            "metadata": {"name": f"c{self.number}"},
            "action": action,
            "target": target,
        }
        self.scenario.gateway.put("command", command)
        self.scenario.settle()

    def state(self, name: str) -> str:
        queue = self.scenario.gateway.get("queue", name)
        assert queue is not None
        return queue.get("status", {}).get("state", "")

    def mark(self, name: str) -> str | None:
        queue = self.scenario.gateway.get("queue", name)
        assert queue is not None
        return queue["metadata"].get("annotations", {}).get(CLOSED_BY_PARENT)

    def events(self) -> list[tuple[str, str, str]]:
        return [
            (event["type"], event["reason"], event["message"])
            for name in self.scenario.gateway.names("event")
            if (event := self.scenario.gateway.get("event", name)) is not None
        ]


@pytest.fixture
def orders(scenario: JobScenario) -> Orders:
    return Orders(scenario)


def test_an_empty_queue_closes_and_opens_at_once_and_the_command_is_gone(orders: Orders):
    orders.queue("q")
    orders.give("CloseQueue", "q")
    assert orders.state("q") == "Closed"
    orders.give("OpenQueue", "q")

    assert orders.state("q") == "Open"
    assert orders.scenario.gateway.names("command") == []
    assert ("Normal", "CloseQueue", "Close queue succeed") in orders.events()


def test_a_queue_with_gangs_is_closing_until_the_last_is_gone(orders: Orders):
    orders.queue("q")
    orders.scenario.submit(job("a", task("t", 1), queue="q"))
    orders.give("CloseQueue", "q")
    assert orders.state("q") == "Closing"
    orders.scenario.gateway.delete("vcjob", "a")
    orders.scenario.settle()

    assert orders.state("q") == "Closed"


def test_a_closing_queue_can_be_opened_again(orders: Orders):
    orders.queue("q")
    orders.scenario.submit(job("a", task("t", 1), queue="q"))
    orders.give("CloseQueue", "q")
    orders.give("OpenQueue", "q")

    assert orders.state("q") == "Open"


@pytest.mark.parametrize(
    ("action", "state"), [("OpenQueue", "Open"), ("CloseQueue", "Closed"), ("SyncQueue", "Unknown")]
)
def test_what_becomes_of_an_unknown_state(orders: Orders, action: str, state: str):
    orders.queue("q", "root", status={"state": "Unknown"})
    orders.give(action, "q")

    assert orders.state("q") == state


def test_children_close_with_their_parent_and_open_with_it(orders: Orders):
    orders.queue("q1")
    orders.queue("q11", "q1")
    orders.queue("q111", "q11")
    orders.give("CloseQueue", "q1")
    assert [orders.state(q) for q in ("q1", "q11", "q111")] == ["Closed"] * 3
    assert [orders.mark(q) for q in ("q1", "q11", "q111")] == [None, "true", "true"]

    orders.give("OpenQueue", "q11")
    assert orders.state("q11") == "Closed"
    assert (
        "Warning",
        "OpenQueue",
        (
            "Failed to open queue q11 because its parent queue q1 is closing or closed. "
            "Open the parent queue first."
        ),
    ) in orders.events()

    orders.give("OpenQueue", "q1")
    assert [orders.state(q) for q in ("q1", "q11", "q111")] == ["Open"] * 3
    assert [orders.mark(q) for q in ("q11", "q111")] == ["false", "false"]


def test_a_child_that_was_closed_by_itself_stays_closed_when_the_parent_opens(orders: Orders):
    orders.queue("q1")
    orders.queue("q11", "q1")
    orders.give("CloseQueue", "q11")
    orders.give("CloseQueue", "q1")
    orders.give("OpenQueue", "q1")

    assert (orders.state("q1"), orders.state("q11")) == ("Open", "Closed")


def test_a_child_made_under_a_closed_parent_is_closed(orders: Orders):
    orders.queue("q1")
    orders.give("CloseQueue", "q1")
    orders.queue("q11", "q1")

    assert (orders.state("q11"), orders.mark("q11")) == ("Closed", "true")


def test_the_root_cannot_be_closed(orders: Orders):
    orders.give("CloseQueue", "root")

    assert orders.state("root") == "Open"
    assert orders.scenario.gateway.names("command") == []
    assert any(reason == "CloseQueue" and "root" in m for _, reason, m in orders.events())


def test_a_command_for_another_queue_of_the_same_name_is_only_removed(orders: Orders):
    orders.queue("q")
    orders.give("CloseQueue", "q", uid="00000000-0000-4000-8000-999999999999")

    assert orders.state("q") == "Open"
    assert orders.scenario.gateway.names("command") == []


def test_an_order_that_a_queue_cannot_follow_is_answered(orders: Orders):
    orders.give("AbortJob", "default")

    assert orders.scenario.gateway.names("command") == []
    assert ("Warning", "InvalidCommand", "'AbortJob' is nothing that a queue can do") in (
        orders.events()
    )


def test_queues_that_are_each_others_parents_are_told_so_once(orders: Orders):
    orders.queue("a", "b")
    orders.queue("b", "a")
    asked = len(orders.scenario.gateway.applied)
    for _ in range(50):
        orders.scenario.driver.wait(10)

    assert sorted(m.split(":")[0] for _, r, m in orders.events() if r == "InvalidParent") == [
        "queue a is its own ancestor through its parent b",
        "queue b is its own ancestor through its parent a",
    ]
    assert len(orders.scenario.gateway.applied) == asked
    orders.give("CloseQueue", "a")
    assert (orders.state("a"), orders.state("b")) == ("Closed", "Open")


def test_a_parent_that_does_not_exist_is_told(orders: Orders):
    orders.queue("a", "nowhere")

    assert ("Warning", "ParentNotFound", "the parent nowhere of queue a does not exist") in (
        orders.events()
    )
    assert orders.state("a") == "Open"


NAMES = ("a", "b", "c", "d")


class Hierarchy(RuleBasedStateMachine):
    """Any orders in any tree, with the core started anew at any time."""

    def __init__(self) -> None:
        super().__init__()
        turns = iter(range(10_000))
        gateway = SimulatedGateway(watched=kinds_read_by(CONTROLLERS))
        scenario = JobScenario(gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}"))
        self.orders = Orders(scenario)

    def _exists(self, name: str) -> bool:
        return self.orders.scenario.gateway.get("queue", name) is not None

    @rule(name=st.sampled_from(NAMES), parent=st.sampled_from(("", *NAMES)))
    def make(self, name: str, parent: str) -> None:
        # As admission has it: the parent exists, so there is no circle.
        if not self._exists(name) and (not parent or self._exists(parent)):
            self.orders.queue(name, parent)

    @rule(name=st.sampled_from(NAMES), action=st.sampled_from(("OpenQueue", "CloseQueue")))
    def order(self, name: str, action: str) -> None:
        if self._exists(name):
            self.orders.give(action, name)

    @rule()
    def restart(self) -> None:
        self.orders.scenario.driver.start()
        self.orders.scenario.driver.settle()

    @precondition(lambda self: self.orders.scenario.gateway.names("queue"))
    @rule(data=st.data())
    def crash_within(self, data: st.DataObject) -> None:
        """An order is given, and the core ends somewhere within carrying it out."""
        name = data.draw(st.sampled_from(self.orders.scenario.gateway.names("queue")))
        self.orders.scenario.settles = False
        self.orders.give(data.draw(st.sampled_from(("OpenQueue", "CloseQueue"))), name)
        self.orders.scenario.settles = True
        for _ in range(data.draw(st.integers(0, 6))):
            if self.orders.scenario.gateway.stimuli:
                self.orders.scenario.driver.step()
        self.restart()

    @invariant()
    def nothing_is_open_below_a_closed_queue(self) -> None:
        for name in self.orders.scenario.gateway.names("queue"):
            queue = self.orders.scenario.gateway.get("queue", name)
            assert queue is not None
            parent = queue.get("spec", {}).get("parent", "")
            if parent and self.orders.state(parent) == "Closed":
                assert self.orders.state(name) == "Closed", f"{name} below {parent}"

    @invariant()
    def no_command_is_left(self) -> None:
        assert self.orders.scenario.gateway.names("command") == []

    @invariant()
    def the_root_is_open(self) -> None:
        assert self.orders.state("root") == "Open"


TestHierarchy = Hierarchy.TestCase
TestHierarchy.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
