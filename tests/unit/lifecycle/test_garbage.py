"""Jobs that ended are deleted when their time to live is over, and not before."""

from typing import Any

import pytest

from stromboli.contracts.intents import DeleteObject
from stromboli.lifecycle.moments import as_text
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task


def ended(scenario: JobScenario, phase: str, *, ttl: int | None, ago: float = 0.0) -> None:
    manifest: dict[str, Any] = job("j", task("t", 1))
    if ttl is not None:
        manifest["spec"]["ttlSecondsAfterFinished"] = ttl
    when = as_text(scenario.gateway.now - ago)
    manifest["status"] = {"state": {"phase": phase, "lastTransitionTime": when}}
    scenario.submit(manifest)


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
def test_an_ended_job_goes_at_the_second_it_said(scenario: JobScenario, phase: str):
    ended(scenario, phase, ttl=100)
    scenario.driver.wait(99.9)
    assert scenario.gateway.get("vcjob", "j") is not None
    scenario.driver.wait(0.1)

    assert scenario.gateway.get("vcjob", "j") is None
    deletes = [i for i in scenario.gateway.applied if isinstance(i, DeleteObject)]
    assert [(i.kind, i.propagation) for i in deletes if i.kind == "vcjob"] == [
        ("vcjob", "Foreground")
    ]


def test_the_core_asks_to_be_woken_at_that_second(scenario: JobScenario):
    scenario.driver.wake_at.clear()
    ended(scenario, "Completed", ttl=7)

    assert int(scenario.gateway.now) + 7 in scenario.driver.wake_at


def test_a_job_whose_time_passed_while_nobody_looked_goes_at_once(scenario: JobScenario):
    ended(scenario, "Completed", ttl=60, ago=3600)

    assert scenario.gateway.get("vcjob", "j") is None


def test_zero_seconds_is_at_once(scenario: JobScenario):
    ended(scenario, "Failed", ttl=0)

    assert scenario.gateway.get("vcjob", "j") is None


@pytest.mark.parametrize(("phase", "ttl"), [("Aborted", 1), ("Running", 1), ("Completed", None)])
def test_others_stay(scenario: JobScenario, phase: str, ttl: int | None):
    ended(scenario, phase, ttl=ttl)
    scenario.driver.wait(1000)

    assert scenario.gateway.get("vcjob", "j") is not None


def test_a_longer_time_to_live_is_heeded_when_it_is_given_in_time(scenario: JobScenario):
    ended(scenario, "Completed", ttl=10)
    scenario.gateway.patch("vcjob", "j", {"spec": {"ttlSecondsAfterFinished": 100}})
    scenario.settle()
    scenario.driver.wait(50)
    assert scenario.gateway.get("vcjob", "j") is not None
    scenario.driver.wait(51)

    assert scenario.gateway.get("vcjob", "j") is None


def test_a_job_that_ended_in_the_future_by_another_clock_is_not_collected_early(
    scenario: JobScenario,
):
    ended(scenario, "Completed", ttl=10, ago=-30)
    scenario.driver.wait(35)
    assert scenario.gateway.get("vcjob", "j") is not None
    scenario.driver.wait(6)

    assert scenario.gateway.get("vcjob", "j") is None
