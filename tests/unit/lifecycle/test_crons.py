"""A job for each time that a schedule names: once, and as the policies say."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stromboli.contracts.intents import AnyIntent, CreateObject
from stromboli.contracts.outcomes import Reason
from stromboli.contracts.stimuli import WokeUp
from stromboli.lifecycle.controllers.registry import kinds_read_by, made
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.moments import as_text
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.simulated_gateway import SimulatedGateway

NAMES = ("cronjob-controller",)
MIDNIGHT = 1_767_225_600.0  # 2026-01-01T00:00:00Z

Manifest = dict[str, Any]


def cron(schedule: str = "*/5 * * * *", name: str = "nightly", **spec: Any) -> Manifest:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": job("x", task("t", 1))["spec"],
    }
    return {
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


@dataclass
class RememberingGateway(SimulatedGateway):
    ever: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Kind and name of everything that was ever made."""

    def put(self, kind: str, manifest: Manifest) -> Manifest:
        self.ever.append((kind, manifest["metadata"]["name"]))
        return super().put(kind, manifest)


class Schedules:
    """The cronjob controller alone, and the test in the place of the job controller."""

    def __init__(self, now: float = MIDNIGHT) -> None:
        turns = iter(range(100_000))
        self.gateway = RememberingGateway(watched=kinds_read_by(NAMES), now=now)
        self.scenario = JobScenario(
            self.gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}", controllers=made(NAMES))
        )

    def submit(self, manifest: Manifest) -> None:
        self.gateway.put("vccronjob", manifest)
        self.scenario.settle()

    def wait(self, seconds: float) -> None:
        self.scenario.driver.wait(seconds)

    def run_until(self, seconds: float, *, step: float = 30.0) -> None:
        end = self.gateway.now + seconds
        while self.gateway.now < end:
            self.wait(min(step, end - self.gateway.now))

    def end(self, name: str, phase: str = "Completed") -> None:
        when = as_text(self.gateway.now)
        state = {"phase": phase, "lastTransitionTime": when}
        self.gateway.patch("vcjob", name, {"status": {"state": state}})
        self.scenario.settle()

    def jobs(self) -> list[str]:
        return self.gateway.names("vcjob")

    def made_for(self) -> list[str]:
        """Every time that a job was ever made for, in the order of making."""
        times: list[str] = []
        for intent in self.gateway.applied:
            if isinstance(intent, CreateObject) and intent.kind == "vcjob":
                manifest = json.loads(intent.manifest)
                annotations = manifest["metadata"]["annotations"]
                times.append(annotations["volcano.sh/cronjob-scheduled-timestamp"])
        return times

    def status(self, name: str = "nightly") -> Manifest:
        found = self.gateway.get("vccronjob", name)
        assert found is not None
        return found.get("status", {})

    def events(self) -> list[tuple[str, str]]:
        events = (self.gateway.get("event", name) for name in self.gateway.names("event"))
        return [(event["reason"], event["message"]) for event in events if event is not None]


@pytest.fixture
def schedules() -> Schedules:
    return Schedules()


def number(seconds: float) -> int:
    return int(MIDNIGHT + seconds) // 60


def test_a_job_is_made_when_its_time_comes(schedules: Schedules):
    schedules.submit(cron(timeZone="Europe/Rome"))
    schedules.wait(299)
    assert schedules.jobs() == []
    schedules.wait(1)

    name = f"nightly-{number(300)}"
    assert schedules.jobs() == [name]
    found = schedules.gateway.get("vcjob", name)
    assert found is not None
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"] == {
        "note": "b",
        "volcano.sh/cronjob-scheduled-timestamp": "2026-01-01T01:05:00+01:00",
    }
    assert [(o["kind"], o["controller"]) for o in found["metadata"]["ownerReferences"]] == [
        ("CronJob", True)
    ]
    assert found["spec"]["tasks"][0]["name"] == "t"
    assert schedules.status()["lastScheduleTime"] == "2026-01-01T00:05:00Z"
    assert [active["name"] for active in schedules.status()["active"]] == [name]
    assert ("SuccessfulCreate", f"Created job {name} for CronJob nightly") in schedules.events()


def test_the_core_asks_to_be_woken_when_the_next_is_due(schedules: Schedules):
    schedules.scenario.driver.wake_at.clear()
    schedules.submit(cron("* * * * *"))

    assert MIDNIGHT + 60 in schedules.scenario.driver.wake_at


def test_of_many_missed_times_the_latest_is_made_up_for(schedules: Schedules):
    schedules.submit(cron("* * * * *"))
    schedules.wait(3 * 3600 + 20)

    assert schedules.made_for() == ["2026-01-01T03:00:00Z"]
    assert (
        "TooManyMissedTimes",
        (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check "
            "clock skew"
        ),
    ) in schedules.events()


def test_a_time_that_is_too_long_ago_is_not_made_up_for(schedules: Schedules):
    schedules.submit(cron("0 * * * *", startingDeadlineSeconds=60))
    schedules.wait(3600 + 61)
    assert schedules.jobs() == []
    assert (
        "MissSchedule",
        "Missed scheduled time to start a job: 2026-01-01T01:00:00Z",
    ) in schedules.events()
    schedules.wait(3600 - 61 + 60)

    assert schedules.made_for() == ["2026-01-01T02:00:00Z"]


def test_equal_distances_are_kept_with_a_deadline_too(schedules: Schedules):
    """Kubernetes counts them from the deadline, and then they never come due."""
    schedules.submit(cron("@every 10m", startingDeadlineSeconds=30))
    schedules.run_until(3600, step=10)

    assert len(schedules.made_for()) == 6


def test_more_than_one_a_minute_have_names_of_their_own(schedules: Schedules):
    schedules.submit(cron("@every 20s"))
    schedules.run_until(120, step=5)

    assert len(schedules.jobs()) == 6


def test_forbid_waits_for_the_one_that_runs_and_starts_late(schedules: Schedules):
    schedules.submit(cron(concurrencyPolicy="Forbid"))
    schedules.run_until(660)
    assert schedules.made_for() == ["2026-01-01T00:05:00Z"]
    assert (
        "ForbidConcurrent",
        "Skipping job creation because another job is already running",
    ) in schedules.events()
    schedules.end(schedules.jobs()[0])

    assert schedules.made_for() == ["2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"]


def test_replace_ends_the_one_that_runs(schedules: Schedules):
    schedules.submit(cron(concurrencyPolicy="Replace"))
    schedules.run_until(600)

    assert schedules.jobs() == [f"nightly-{number(600)}"]
    assert [active["name"] for active in schedules.status()["active"]] == schedules.jobs()
    assert ("ReplaceConcurrent", "Replacing active job for CronJob") in schedules.events()


def test_allow_lets_them_run_side_by_side(schedules: Schedules):
    schedules.submit(cron())
    schedules.run_until(900)

    assert len(schedules.status()["active"]) == 3


def test_a_suspended_schedule_makes_nothing_and_goes_on_where_it_is_resumed(schedules: Schedules):
    schedules.submit(cron(suspend=True))
    schedules.run_until(900)
    assert schedules.jobs() == []
    schedules.gateway.patch("vccronjob", "nightly", {"spec": {"suspend": False}})
    schedules.scenario.settle()

    assert schedules.made_for() == ["2026-01-01T00:15:00Z"]


def test_only_so_many_ended_jobs_are_kept(schedules: Schedules):
    schedules.submit(cron("* * * * *", successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
    for minute in range(1, 9):
        schedules.wait(60)
        schedules.end(f"nightly-{number(60 * minute)}", "Failed" if minute % 2 else "Completed")

    assert schedules.jobs() == [f"nightly-{number(60 * minute)}" for minute in (6, 7, 8)]
    assert schedules.status()["lastSuccessfulTime"] == "2026-01-01T00:08:00Z"
    assert "active" not in schedules.status()
    gone = f"nightly-{number(60)}"
    assert ("SuccessfulDelete", f'Deleted job "{gone}"') in schedules.events()
    assert ("SawCompletedJob", f"Saw completed job: {gone} in active, remove") in schedules.events()


def test_no_history_is_kept_when_none_is_wanted(schedules: Schedules):
    schedules.submit(cron(successfulJobsHistoryLimit=0))
    schedules.wait(300)
    schedules.end(schedules.jobs()[0])

    assert schedules.jobs() == []
    assert schedules.status()["lastSuccessfulTime"] == "2026-01-01T00:05:00Z"
    schedules.run_until(200)
    assert schedules.made_for() == ["2026-01-01T00:05:00Z"]


def test_a_job_that_somebody_deletes_at_once_is_not_made_again(schedules: Schedules):
    schedules.submit(cron())
    schedules.scenario.settles = False
    schedules.gateway.now += 300
    for intent in schedules.scenario.driver.tell(WokeUp()):
        schedules.gateway.apply(intent)
    schedules.gateway.delete("vcjob", f"nightly-{number(300)}")
    schedules.scenario.driver.settle()
    schedules.run_until(200)

    assert schedules.made_for() == ["2026-01-01T00:05:00Z"]
    assert schedules.status()["lastScheduleTime"] == "2026-01-01T00:05:00Z"


def test_a_crash_between_making_and_noting_makes_no_second_one(schedules: Schedules):
    schedules.submit(cron())
    schedules.gateway.now += 300
    for intent in schedules.scenario.driver.tell(WokeUp()):
        schedules.gateway.apply(intent)
    schedules.scenario.driver.start()
    schedules.scenario.driver.settle()

    assert schedules.jobs() == [f"nightly-{number(300)}"]
    assert schedules.status()["lastScheduleTime"] == "2026-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("spec", "reason", "said"),
    [
        ({"schedule": "every day"}, "UnParseableCronJobSchedule", "expected 5 fields"),
        ({"schedule": "TZ=UTC 0 0 * * *"}, "UnsupportedSchedule", "the field timeZone"),
        ({"timeZone": "Mars/Olympus"}, "InvalidTimeZone", "unknown time zone 'Mars/Olympus'"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_told_once_and_heals(
    schedules: Schedules, spec: Manifest, reason: str, said: str
):
    schedules.submit(cron(**spec) if "schedule" not in spec else cron(spec["schedule"]))
    asked = len(schedules.gateway.applied)
    schedules.run_until(3000)

    [(told, message)] = schedules.events()
    assert told == reason
    assert said in message
    assert len(schedules.gateway.applied) == asked
    healed = {"spec": {"schedule": "* * * * *", "timeZone": None}}
    schedules.gateway.patch("vccronjob", "nightly", healed)
    schedules.scenario.settle()
    assert len(schedules.jobs()) == 1


def test_a_job_that_is_refused_is_told_and_asked_for_ever_later(schedules: Schedules):
    refused = 0

    def refuse(intent: AnyIntent) -> tuple[Reason, str] | None:
        nonlocal refused
        if intent.kind != "vcjob":
            return None
        refused += 1
        return Reason.FORBIDDEN, "the queue is closed"

    schedules.gateway.check = refuse
    schedules.submit(cron("0 * * * *"))
    schedules.wait(3600)
    schedules.run_until(200, step=1)

    assert 5 <= refused <= 25
    assert schedules.events() == [
        ("FailedCreate", "Error creating job: create vcjob: the queue is closed")
    ]
    assert "lastScheduleTime" not in schedules.status()
    schedules.gateway.check = lambda _intent: None
    schedules.run_until(60, step=1)
    assert schedules.made_for() == ["2026-01-01T01:00:00Z"]


class AnyLife(RuleBasedStateMachine):
    """Time, crashes, ends and deletions in any order, under each policy."""

    def __init__(self) -> None:
        super().__init__()
        self.schedules = Schedules()
        for policy in ("Allow", "Forbid", "Replace"):
            manifest = cron("* * * * *", policy.lower(), concurrencyPolicy=policy)
            self.schedules.submit(manifest)

    def _of(self, policy: str) -> list[Manifest]:
        jobs = (self.schedules.gateway.get("vcjob", name) for name in self.schedules.jobs())
        return [j for j in jobs if j is not None and j["metadata"]["name"].startswith(policy)]

    @rule(seconds=st.sampled_from((0.0, 1.0, 59.0, 60.0, 61.0, 400.0)))
    def time_passes(self, seconds: float) -> None:
        self.schedules.wait(seconds)

    @rule(seconds=st.sampled_from((0.0, 60.0, 7000.0)), steps=st.integers(0, 8))
    def crash(self, seconds: float, steps: int) -> None:
        """Some of what there is to do is done, then the core is gone for a while."""
        driver, gateway = self.schedules.scenario.driver, self.schedules.gateway
        gateway.now += seconds
        gateway.stimuli.append(WokeUp())
        for _ in range(steps):
            if gateway.stimuli:
                driver.step()
        driver.start()
        driver.settle()

    @rule(phase=st.sampled_from(("Completed", "Failed", "Terminated")), data=st.data())
    def a_job_ends(self, phase: str, data: st.DataObject) -> None:
        if self.schedules.jobs():
            self.schedules.end(data.draw(st.sampled_from(self.schedules.jobs())), phase)

    @rule(data=st.data())
    def somebody_deletes_a_job(self, data: st.DataObject) -> None:
        if self.schedules.jobs():
            name = data.draw(st.sampled_from(self.schedules.jobs()))
            self.schedules.gateway.delete("vcjob", name)
            self.schedules.scenario.settle()

    @rule(back=st.sampled_from((1.0, 90.0)))
    def the_clock_is_set_back(self, back: float) -> None:
        self.schedules.gateway.now -= back
        self.schedules.wait(0)

    @invariant()
    def no_time_is_used_twice(self) -> None:
        made_names = [job for job in self.schedules.gateway.ever if job[0] == "vcjob"]
        assert len(made_names) == len(set(made_names))

    @invariant()
    def forbid_never_overlaps(self) -> None:
        running = [j for j in self._of("forbid") if "state" not in j.get("status", {})]
        assert len(running) <= 1

    @invariant()
    def replace_never_overlaps(self) -> None:
        running = [j for j in self._of("replace") if "state" not in j.get("status", {})]
        assert len(running) <= 1

    @invariant()
    def the_status_names_those_that_run(self) -> None:
        for policy in ("allow", "forbid", "replace"):
            running = [
                j["metadata"]["name"]
                for j in self._of(policy)
                if "state" not in j.get("status", {})
            ]
            active = self.schedules.status(policy).get("active", [])
            assert [one["name"] for one in active] == sorted(running)


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
