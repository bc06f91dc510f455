"""Controllers that die anywhere on the way leave what they would have left anyway."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from stromboli.contracts.intents import AnyIntent
from stromboli.lifecycle.controllers.registry import CONTROLLERS, kinds_read_by, made
from stromboli.lifecycle.core import LifecycleCore
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.simulated_gateway import CoreDriver, SimulatedGateway

NAMES = [name for name in CONTROLLERS if name != "job-controller"]
MOST_STEPS = 120

Manifest = dict[str, Any]
Picture = dict[str, Any]


class MortalDriver(CoreDriver):
    """Its core dies once, before it has handled so many stimuli."""

    lives_for: int = MOST_STEPS
    steps: int = 0

    def step(self) -> list[AnyIntent]:
        self.steps += 1
        if self.steps == self.lives_for:
            self.start()
            return []
        return super().step()


def a_cluster(lives_for: int) -> tuple[JobScenario, MortalDriver]:
    turns = itertools.count()
    gateway = SimulatedGateway(watched=kinds_read_by(CONTROLLERS), now=1_767_225_600.0)

    def make_core() -> LifecycleCore:
        return LifecycleCore(turn=f"turn-{next(turns)}", controllers=made(NAMES))

    scenario = JobScenario(gateway, make_core)
    driver = MortalDriver(gateway, make_core)
    driver.lives_for = lives_for
    scenario.driver = driver
    driver.settle()
    return scenario, driver


def picture_of(gateway: SimulatedGateway) -> Picture:
    """All objects but events, without what is different every time."""
    shown: Picture = {}
    for (kind, namespace, name), found in gateway.objects.items():
        if kind != "event":
            metadata = found["metadata"]
            kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
            rest = {key: value for key, value in found.items() if key != "metadata"}
            shown[f"{kind}/{namespace}/{name}"] = {"metadata": kept, **rest}
    return shown


def close_a_tree(scenario: JobScenario) -> None:
    gateway = scenario.gateway
    for name, parent in (("a", "root"), ("b", "a"), ("c", "b")):
        gateway.put("queue", {"metadata": {"name": name}, "spec": {"parent": parent}})
        scenario.settle()
    for number, action in enumerate(("CloseQueue", "OpenQueue", "CloseQueue")):
        queue = gateway.get("queue", "a")
        assert queue is not None
        target = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "name": "a",
            "uid": queue["metadata"]["uid"],
        }
        command = {"metadata": {"name": f"c{number}"}, "action": action, "target": target}
        gateway.put("command", command)
        scenario.settle()


def run_a_flow(scenario: JobScenario) -> None:
    gateway = scenario.gateway
    for name in ("a", "b", "c"):
        spec = job("x", task("t", 1))["spec"]
        gateway.put("jobtemplate", {"metadata": {"name": name}, "spec": spec})
    steps = [
        {"name": "a"},
        {"name": "b", "dependsOn": {"targets": ["a"]}},
        {"name": "c", "dependsOn": {"targets": ["b"]}},
    ]
    gateway.put("jobflow", {"metadata": {"name": "f"}, "spec": {"flows": steps}})
    scenario.settle()
    for name in ("f-a", "f-b", "f-c"):
        gateway.patch("vcjob", name, {"status": {"state": {"phase": "Completed"}}})
        scenario.settle()


def roll_out(scenario: JobScenario) -> None:
    gateway = scenario.gateway
    for name in ("web-1", "web-2"):
        made_set = gateway.put("replicaset", {"metadata": {"name": name}, "spec": {"replicas": 2}})
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": name,
            "uid": made_set["metadata"]["uid"],
            "controller": True,
        }
        for index in range(2):
            metadata = {"name": f"{name}-{index}", "ownerReferences": [owner]}
            gateway.put("pod", {"metadata": metadata, "spec": {"schedulerName": "volcano"}})
            scenario.settle()
    gateway.patch("replicaset", "web-1", {"spec": {"replicas": 0}})
    scenario.settle()


def keep_a_schedule(scenario: JobScenario) -> None:
    gateway = scenario.gateway
    template = {"spec": job("x", task("t", 1))["spec"]}
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Replace",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": template,
    }
    gateway.put("vccronjob", {"metadata": {"name": "tick"}, "spec": spec})
    scenario.settle()
    for _ in range(3):
        scenario.driver.wait(60)
    for name in gateway.names("vcjob"):
        state = {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:03:10Z"}
        gateway.patch("vcjob", name, {"status": {"state": state}})
        scenario.settle()
    scenario.driver.wait(60)


@pytest.mark.parametrize("story", [close_a_tree, run_a_flow, roll_out, keep_a_schedule])
def test_a_death_anywhere_changes_nothing(story: Callable[[JobScenario], None]):
    whole, driver = a_cluster(MOST_STEPS + 1)
    story(whole)
    expected = picture_of(whole.gateway)
    assert len(expected) > 3
    steps = driver.steps
    assert steps > 20

    for lives_for in range(1, steps + 1):
        scenario, _ = a_cluster(lives_for)
        story(scenario)
        assert picture_of(scenario.gateway) == expected, f"it died before step {lives_for}"
