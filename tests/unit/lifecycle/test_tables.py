from typing import Any

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.api.batch import Action, Job, JobEvent, JobPhase
from stromboli.api.wire import read_object
from stromboli.lifecycle.arguments import read_arguments
from stromboli.lifecycle.census import Census, member_of
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.phases import ENDS_IN, TABLE, Keep, Rule, What, effect_of, settled
from stromboli.lifecycle.plugins.drafts import port_of
from stromboli.lifecycle.policies import Happening, answer_to
from stromboli.lifecycle.records import Records
from stromboli.lifecycle.roster import as_indexes, as_text
from stromboli.testkit import sample_jobs
from stromboli.testkit.job_scenario import JobScenario

ALIVE = (JobPhase.PENDING, JobPhase.RUNNING)


def a_job(*tasks: sample_jobs.Manifest, **spec: Any) -> Job:
    chosen = tasks or (sample_jobs.task("t", 2),)
    return read_object(kinds.VC_JOB, sample_jobs.job("j", *chosen, **spec))


def action_for(job: Job, happening: Happening) -> str:
    answer = answer_to(job, happening)
    return Action.SYNC_JOB if answer is None else answer.action


def test_every_phase_answers_every_action():
    for phase in JobPhase:
        for action in (*Action, "Nonsense"):
            assert effect_of(phase, action).what in What
    assert set(TABLE) == set(JobPhase)


@pytest.mark.parametrize("phase", ALIVE)
@pytest.mark.parametrize(
    ("action", "enters", "keep"),
    [
        (Action.RESTART_JOB, JobPhase.RESTARTING, Keep.NOTHING),
        (Action.ABORT_JOB, JobPhase.ABORTING, Keep.FINISHED),
        (Action.TERMINATE_JOB, JobPhase.TERMINATING, Keep.FINISHED),
        (Action.COMPLETE_JOB, JobPhase.COMPLETING, Keep.FINISHED),
    ],
)
def test_a_job_that_lives_can_be_ended_in_four_ways(
    phase: JobPhase, action: Action, enters: JobPhase, keep: Keep
):
    effect = effect_of(phase, action)

    assert (effect.what, effect.enters, effect.keep) == (What.KILL, enters, keep)
    assert effect.counts_as_retry is (action is Action.RESTART_JOB)


def test_only_an_aborted_job_can_be_resumed():
    resumable = {
        phase
        for phase in JobPhase
        if effect_of(phase, Action.RESUME_JOB).enters is JobPhase.RESTARTING
    }

    assert resumable == {JobPhase.ABORTING, JobPhase.ABORTED}


@pytest.mark.parametrize("phase", list(ENDS_IN))
def test_a_job_on_its_way_out_is_out_once_nothing_of_it_lives(phase: JobPhase):
    effect = effect_of(phase, Action.SYNC_JOB)
    alive = Census(terminating=1, succeeded=1)

    assert settled(effect.rule, phase, a_job(), alive, retry_count=0) is phase
    assert (
        settled(effect.rule, phase, a_job(), Census(succeeded=1), retry_count=0) is ENDS_IN[phase]
    )


@pytest.mark.parametrize(
    ("spec", "census", "expected"),
    [
        ({}, Census(running=2), JobPhase.RUNNING),
        ({}, Census(succeeded=2), JobPhase.COMPLETED),
        ({}, Census(succeeded=1, failed=1), JobPhase.FAILED),
        ({"minAvailable": 1}, Census(succeeded=1, failed=1), JobPhase.COMPLETED),
        ({"minSuccess": 1}, Census(succeeded=1, running=1), JobPhase.COMPLETED),
        ({"minSuccess": 2, "minAvailable": 1}, Census(succeeded=1, failed=1), JobPhase.FAILED),
        ({}, Census(running=1, pending=1), JobPhase.PENDING),
        ({"minAvailable": 1}, Census(running=1, pending=1), JobPhase.RUNNING),
    ],
)
def test_a_running_job_ends_as_its_pods_end(
    spec: dict[str, int], census: Census, expected: JobPhase
):
    phase = settled(Rule.AS_PODS_END, JobPhase.RUNNING, a_job(**spec), census, retry_count=0)

    assert phase is expected


def test_a_task_with_a_minimum_of_its_own_must_reach_it():
    job = a_job(sample_jobs.task("a", 1, minAvailable=1), sample_jobs.task("b", 1), minAvailable=1)
    census = Census(succeeded=1, failed=1, tasks={"a": {"Failed": 1}, "b": {"Succeeded": 1}})

    assert (
        settled(Rule.AS_PODS_END, JobPhase.RUNNING, job, census, retry_count=0) is JobPhase.FAILED
    )


def test_a_job_that_used_up_its_retries_fails():
    rule = Rule.ONCE_RESTARTED

    assert settled(rule, JobPhase.RESTARTING, a_job(), Census(), retry_count=2) is JobPhase.PENDING
    assert settled(rule, JobPhase.RESTARTING, a_job(), Census(), retry_count=3) is JobPhase.FAILED
    waiting = Census(terminating=1)
    assert (
        settled(rule, JobPhase.RESTARTING, a_job(), waiting, retry_count=1) is JobPhase.RESTARTING
    )


def test_the_policies_of_the_task_come_first():
    own = [{"event": "PodFailed", "action": "AbortJob"}]
    job = a_job(
        sample_jobs.task("a", 1, policies=own),
        sample_jobs.task("b", 1),
        policies=[{"event": "*", "action": "RestartJob"}],
    )

    failed_a = Happening(event=JobEvent.POD_FAILED, task="a", index=0)
    failed_b = Happening(event=JobEvent.POD_FAILED, task="b", index=0)
    assert action_for(job, failed_a) == Action.ABORT_JOB
    assert action_for(job, failed_b) == Action.RESTART_JOB


def test_the_first_policy_that_matches_decides_and_none_means_sync():
    job = a_job(
        policies=[
            {"exitCode": 3, "action": "TerminateJob"},
            {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"},
        ]
    )

    def action(event: JobEvent, exit_code: int = 0) -> str:
        return action_for(job, Happening(event=event, task="t", exit_code=exit_code))

    assert action(JobEvent.POD_FAILED, 3) == Action.TERMINATE_JOB
    assert action(JobEvent.POD_FAILED, 1) == Action.RESTART_JOB
    assert action(JobEvent.POD_EVICTED) == Action.RESTART_JOB
    assert action(JobEvent.TASK_COMPLETED) == Action.SYNC_JOB


def test_a_pending_pod_is_an_event_only_for_a_policy_with_a_timeout():
    pending = Happening(event=JobEvent.POD_PENDING, task="t")

    assert action_for(a_job(policies=[{"event": "*", "action": "AbortJob"}]), pending) == "SyncJob"
    patient = [{"event": "PodPending", "action": "AbortJob", "timeout": "10m"}]
    assert action_for(a_job(policies=patient), pending) == "AbortJob"


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([0], "0"), ([0, 1, 2], "0-2"), ([5, 0, 1, 7, 8], "0-1,5,7-8")],
)
def test_indexes_become_runs_and_come_back(indexes: list[int], text: str):
    assert as_text(indexes) == text
    assert as_indexes(text) == frozenset(indexes)


def test_text_that_is_no_roster_is_left_out_and_cannot_exhaust_memory():
    assert as_indexes("1,x,-3,4-") == {1, 4}
    assert len(as_indexes("0-99999999999")) <= 1_000_001


def test_records_survive_being_written_and_read():
    records = Records(
        pods={"worker-a": frozenset({0, 1})},
        command="uid-1",
        kept=Keep.FINISHED,
        ended_group="uid-2",
        made={("configmap", "my-job-svc"): "uid-3"},
        content={("configmap", "my-job-svc"): "abc"},
        renewed={"worker-a": {0: 1, 5: 2}},
        delayed={("PodEvicted", "worker-a"): {3: 1700000000}, ("Unknown", ""): {-1: 1700000001}},
        generation=4,
        told={"FailedCreate": "abc@1700000000"},
        plugins=frozenset({"svc"}),
        claims=frozenset({"data"}),
        others={"somebody": "else"},
    )

    assert Records.read(records.written()) == records
    assert records.written()["plugin-svc"] == "svc"
    assert records.written()["volume-pvc-data"] == "data"


def test_a_merge_patch_says_only_what_differs():
    before = {"a": 1, "b": {"c": 2, "d": 3}, "e": [1]}
    after = {"b": {"c": 2, "d": 4}, "e": [1, 2], "f": {}}

    assert merge_patch(before, after) == {"a": None, "b": {"d": 4}, "e": [1, 2], "f": {}}
    assert merge_patch(after, after) == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"port": "22", "on": "false"}),
        (["--port=2222"], {"port": "2222", "on": "false"}),
        (["-port", "2222", "--on"], {"port": "2222", "on": "true"}),
        (["--on=maybe", "--port=1"], {"port": "22", "on": "false"}),
        (["--no-root", "--port=1"], {"port": "22", "on": "false"}),
        (["port=1"], {"port": "22", "on": "false"}),
        (["--port"], {"port": "22", "on": "false"}),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments: list[str], expected: dict[str, str]):
    defaults = {"port": "22", "on": "false"}

    assert read_arguments(arguments, defaults, switches=["on"]) == expected


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 5000])
def test_numbers_that_somebody_else_wrote_may_be_of_any_size(digits: str):
    written = {
        "stromboli/pods-t": f"0-1,{digits}",
        "stromboli/renewed-t": f"{digits}:0;1:{digits}",
        "stromboli/since-PodFailed-t": f"{digits}:{digits}",
        "stromboli/generation": digits,
        "stromboli/equipped": f"0.0@{digits}",
        "stromboli/told-PVCError": f"x@{digits}",
    }
    records = Records.read(written)
    annotations = {"volcano.sh/task-spec": "t", "volcano.sh/task-index": digits}
    pod = {"metadata": {"name": f"j-t-{digits}", "annotations": annotations}}

    assert (records.pods, records.generation) == ({"t": frozenset({0, 1})}, 0)
    assert msgspec.json.encode(records.written())
    assert member_of(read_object(kinds.POD, pod), uid="u") is None
    assert port_of(digits, "22") == 22


def test_a_job_with_numbers_of_any_size_in_its_status_is_decided(scenario: JobScenario):
    digits = "9" * 5000
    scenario.running(sample_jobs.job("j", sample_jobs.task("t", 2), plugins={"svc": []}))
    resources = {"stromboli/equipped": f"0.0@{digits}", "stromboli/pods-t": digits}
    scenario.gateway.patch("vcjob", "j", {"status": {"controlledResources": resources}})
    annotations = {"volcano.sh/job-retry-count": digits}
    scenario.gateway.patch("pod", "j-t-0", {"metadata": {"annotations": annotations}})
    scenario.settle()

    assert scenario.phase("j") == "Running"
