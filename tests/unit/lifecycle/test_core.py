"""What the core does for every controller: which run, when they look again, what they share."""

from functools import partial

import pytest

from stromboli.contracts.intents import CreateObject, DeleteObject, PatchObject
from stromboli.contracts.stimuli import Ready, tell
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import Case, Verdict
from stromboli.lifecycle.controllers.registry import (
    CONTROLLERS,
    Options,
    chosen,
    kinds_read_by,
    made,
    shard_of,
)
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.errors import NoControllers, UnknownController
from stromboli.lifecycle.world import World
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import command, job, task
from stromboli.testkit.simulated_gateway import CoreDriver, SimulatedGateway

ALL = tuple(CONTROLLERS)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("*", ALL),
        ("*,-sharding-controller", ALL),
        ("*,-gc-controller", tuple(name for name in ALL if name != "gc-controller")),
        ("job-controller", ("job-controller",)),
        ("queue-controller, job-controller", ("job-controller", "queue-controller")),
    ],
)
def test_which_controllers_a_text_stands_for(text: str, names: tuple[str, ...]):
    assert chosen(text) == names


@pytest.mark.parametrize("text", ["jobs", "*,-jobs", "sharding-controller"])
def test_a_name_that_is_none_is_refused_with_those_that_are(text: str):
    with pytest.raises(UnknownController, match="job-controller, queue-controller"):
        chosen(text)


@pytest.mark.parametrize("text", ["", " , ", "gc-controller,-gc-controller", "-gc-controller"])
def test_nothing_at_all_cannot_be_chosen(text: str):
    with pytest.raises(NoControllers, match="leaves no controller to run"):
        chosen(text)


def test_every_controller_answers_to_its_name():
    assert [controller.name for controller in made(ALL)] == list(ALL)


def test_processes_with_the_same_controllers_take_turns_and_others_lead_side_by_side():
    assert shard_of(chosen("*")) == "-"
    assert shard_of(chosen("queue-controller,job-controller")) == "job:queue"
    assert shard_of(chosen("job-controller,queue-controller")) == "job:queue"
    assert shard_of(chosen("gc-controller")) == "gc"


def test_a_process_reads_only_what_its_controllers_need():
    assert kinds_read_by(["gc-controller"]) == ("vcjob",)
    assert "pod" not in kinds_read_by(["queue-controller"])


def test_scheduler_names_are_separated_by_commas():
    options = Options.of(scheduler_names="volcano, mine,", inherit_owner_annotations=True)

    assert options.scheduler_names == {"volcano", "mine"}


def test_a_controller_that_was_not_chosen_decides_nothing():
    gateway = SimulatedGateway(watched=kinds_read_by(ALL))
    scenario = JobScenario(
        gateway, lambda: LifecycleCore(turn="t", controllers=made(["queue-controller"]))
    )
    scenario.submit(job("j", task("t", 1)))

    assert gateway.names("queue") == ["default", "root"]
    assert gateway.names("vcpodgroup") == []


def test_controllers_in_different_processes_do_together_what_one_does():
    gateway = SimulatedGateway(watched=kinds_read_by(ALL))
    gateway.put("vcjob", job("j", task("t", 2)))
    parts = (["job-controller", "gc-controller"], ["queue-controller", "pg-controller"])
    cores = [LifecycleCore(turn=str(part), controllers=made(part)) for part in parts]
    gateway.stimuli.append(Ready())
    while gateway.stimuli:
        stimulus = gateway.stimuli.popleft()
        for core in cores:
            for instruction in core.handle(stimulus, now=gateway.now):
                if isinstance(instruction, CreateObject | PatchObject | DeleteObject):
                    gateway.apply(instruction)

    found = gateway.get("vcjob", "j")
    assert found is not None
    assert gateway.names("vcpodgroup") == [f"j-{found['metadata']['uid']}"]
    default = gateway.get("queue", "default")
    assert default is not None
    assert default["status"] == {"state": "Open", "pending": 1}


def test_an_order_to_a_job_that_is_gone_is_cleared_away(scenario: JobScenario):
    target = scenario.submit(job("j", task("t", 1)))
    scenario.gateway.delete("vcjob", "j")
    scenario.settle()
    scenario.gateway.put("command", command("late", "AbortJob", target))
    scenario.settle()

    assert scenario.gateway.names("command") == []


class Counting(Plain):
    """A controller of queues that only counts how often it was asked."""

    name = "counting-controller"
    decides = "queue"
    reads = ("queue",)

    def __init__(self, look_again_after: float | None = None) -> None:
        self.decided: dict[str, int] = {}
        self._look_again_after = look_again_after

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        self.decided[case.name] = self.decided.get(case.name, 0) + 1
        after = self._look_again_after
        return Verdict(look_again_at=None if after is None else case.now + after)


class Unheeding(Plain):
    """A controller that changes its mind, and nothing tells the core."""

    name = "unheeding-controller"
    decides = "queue"
    reads = ("queue",)

    def __init__(self) -> None:
        self.unwanted = ""

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        if case.entry is not None and case.name == self.unwanted:
            asker.delete("queue", "", case.name, uid=case.entry.uid)
        return Verdict()


def with_queues(number: int, controller: Counting | Unheeding) -> CoreDriver:
    gateway = SimulatedGateway(watched=("queue",))
    for index in range(number):
        gateway.put("queue", {"metadata": {"name": f"q{index}"}})
    core = partial(LifecycleCore, controllers=[controller])
    driver = CoreDriver(gateway, core)
    driver.settle()
    return driver


def test_the_safety_pass_looks_at_everything_and_is_no_burst():
    controller = Counting()
    driver = with_queues(1000, controller)
    assert set(controller.decided.values()) == {1}
    driver.safety_pass(within_s=100.0)
    assert sum(controller.decided.values()) - 1000 == 3
    for _ in range(400):
        driver.wait(0.25)

    assert set(controller.decided.values()) == {2}
    assert driver.repaired == []


def test_the_core_asks_to_be_woken_for_each_step_of_the_pass():
    driver = with_queues(1000, Counting())
    assert set(driver.wake_at) == {driver.gateway.now}
    driver.safety_pass(within_s=100.0)

    assert driver.wake_at[-1] == driver.gateway.now + 0.25


def test_a_pass_that_comes_while_one_is_under_way_only_goes_on_with_it():
    controller = Counting()
    driver = with_queues(1000, controller)
    for _ in range(334):
        driver.safety_pass(within_s=100.0)

    assert set(controller.decided.values()) == {2}
    assert driver.repaired == []


def test_what_only_the_pass_found_out_is_told():
    controller = Unheeding()
    driver = with_queues(2, controller)
    controller.unwanted = "q1"
    driver.wait(3600)
    assert driver.gateway.names("queue") == ["q0", "q1"]
    driver.safety_pass()

    assert driver.gateway.names("queue") == ["q0"]
    assert driver.repaired == [
        "only the safety pass found that the unheeding-controller had something to do"
    ]
    driver.safety_pass()
    assert len(driver.repaired) == 1


def test_a_turn_begins_with_a_few_keys_at_a_time():
    controller = Counting()
    gateway = SimulatedGateway(watched=("queue",))
    for index in range(120):
        gateway.put("queue", {"metadata": {"name": f"q{index}"}})
    driver = CoreDriver(gateway, partial(LifecycleCore, controllers=[controller]))
    while gateway.stimuli:
        driver.step()
    assert len(controller.decided) == 50
    assert driver.wake_at == [gateway.now]
    driver.settle()

    assert set(controller.decided.values()) == {1}
    assert len(controller.decided) == 120


def test_a_key_is_looked_at_again_when_its_decision_said_so():
    controller = Counting(look_again_after=5.0)
    driver = with_queues(3, controller)
    assert driver.wake_at[-1] == driver.gateway.now + 5
    driver.wait(4.9)
    assert set(controller.decided.values()) == {1}
    driver.wait(0.1)
    assert set(controller.decided.values()) == {2}
    driver.wait(5)

    assert set(controller.decided.values()) == {3}


def test_facts_that_come_together_are_decided_on_once():
    controller = Counting()
    driver = with_queues(2, controller)
    for weight in range(1, 4):
        for name in ("q0", "q1"):
            driver.gateway.patch("queue", name, {"spec": {"weight": weight}}, namespace="")
    facts = [*driver.gateway.stimuli]
    driver.gateway.stimuli.clear()

    tell(driver.core, facts, now=driver.gateway.now)

    assert len(facts) == 6
    assert controller.decided == {"q0": 2, "q1": 2}


class Failing(Counting):
    """A controller with a mistake in it that one object brings to light."""

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        super().decide(case, world, asker)
        if case.name == "q1":
            raise ZeroDivisionError("a mistake")
        return Verdict()


def test_an_object_that_brings_a_mistake_to_light_stops_no_other():
    controller = Failing()
    gateway = SimulatedGateway(watched=("queue",))
    for index in range(3):
        gateway.put("queue", {"metadata": {"name": f"q{index}"}})
    driver = CoreDriver(gateway, partial(LifecycleCore, controllers=[controller]), forgives=True)
    driver.settle()
    assert controller.decided == {"q0": 1, "q1": 1, "q2": 1}
    for _ in range(100):
        driver.wait(0.5)

    assert 5 <= controller.decided["q1"] <= 15
    [event] = [gateway.get("event", name) for name in gateway.names("event")]
    assert event is not None
    assert event["message"] == "deciding about it failed: ZeroDivisionError: a mistake"
    assert {record.what for record in driver.history} == {"decision.failed"}
