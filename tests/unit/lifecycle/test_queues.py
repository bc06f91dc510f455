from typing import Any

from stromboli.api.kinds import QUEUE, VC_JOB, Kind
from stromboli.api.wire import read_object
from stromboli.contracts.stimuli import FactChanged
from stromboli.lifecycle.controllers.job import JobController
from stromboli.lifecycle.world import World
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task


def status_of(scenario: JobScenario, name: str) -> dict[str, object]:
    found = scenario.gateway.get("queue", name)
    assert found is not None
    return found.get("status", {})


def test_the_root_and_the_default_queue_are_made_where_they_are_absent(scenario: JobScenario):
    root, default = scenario.gateway.get("queue", "root"), scenario.gateway.get("queue", "default")

    assert root is not None
    assert root["spec"] == {"weight": 1, "reclaimable": False}
    assert default is not None
    assert default["spec"] == {"weight": 1, "reclaimable": True, "parent": "root"}
    assert status_of(scenario, "default") == {"state": "Open"}


def test_a_queue_without_a_parent_gets_the_root(scenario: JobScenario):
    scenario.gateway.put("queue", {"metadata": {"name": "research"}, "spec": {"weight": 3}})
    scenario.settle()

    found = scenario.gateway.get("queue", "research")
    assert found is not None
    assert found["spec"] == {"weight": 3, "parent": "root"}
    assert found["status"] == {"state": "Open"}


def test_a_closed_queue_is_left_closed(scenario: JobScenario):
    closed = {
        "metadata": {"name": "shut"},
        "spec": {"parent": "root"},
        "status": {"state": "Closed"},
    }
    scenario.gateway.put("queue", closed)
    scenario.settle()

    assert status_of(scenario, "shut") == {"state": "Closed"}


def test_the_counts_follow_the_gangs(scenario: JobScenario):
    for name in ("a", "b"):
        scenario.submit(job(name, task("t", 1)))
    assert status_of(scenario, "default") == {"state": "Open", "pending": 2}
    scenario.enqueue()
    assert status_of(scenario, "default") == {"state": "Open", "inqueue": 2}
    scenario.enqueue("Running")
    scenario.gateway.delete("vcjob", "a")
    scenario.settle()

    assert status_of(scenario, "default") == {"state": "Open", "running": 1}


def test_a_default_queue_that_was_deleted_comes_back(scenario: JobScenario):
    scenario.gateway.delete("queue", "default")
    scenario.settle()

    assert scenario.gateway.get("queue", "default") is not None


def test_a_new_core_finds_the_same_counts(scenario: JobScenario):
    scenario.submit(job("a", task("t", 1)))
    asked = len(scenario.gateway.applied)
    scenario.driver.start()
    scenario.driver.settle()

    assert len(scenario.gateway.applied) == asked


def test_what_a_queue_counts_is_news_to_none_of_its_jobs_but_its_coming_and_going_is():
    world, controller = World(), JobController()

    def touched(kind: Kind[Any], manifest: dict[str, Any] | None, version: str) -> list[str]:
        item = read_object(kind, manifest) if manifest is not None else None
        name = "j" if kind is VC_JOB else "q"
        change = world.take(
            FactChanged(
                kind=kind.token,
                namespace="ns" if kind is VC_JOB else "",
                name=name,
                uid=f"{name}-uid",
                resource_version=version,
                after=item,
            )
        )
        return list(controller.touched_by(change, world)) if change is not None else []

    counted = {"metadata": {"name": "q", "uid": "q-uid"}, "status": {"running": 1}}
    forwarding = counted | {"spec": {"extendClusters": [{"name": "far"}]}}
    touched(VC_JOB, {"metadata": {"name": "j", "uid": "j-uid"}, "spec": {"queue": "q"}}, "1")

    assert touched(QUEUE, {"metadata": {"name": "q", "uid": "q-uid"}}, "2") == ["vcjob/ns/j"]
    assert touched(QUEUE, counted, "3") == []
    assert touched(QUEUE, forwarding, "4") == ["vcjob/ns/j"]
    assert touched(QUEUE, None, "5") == ["vcjob/ns/j"]
