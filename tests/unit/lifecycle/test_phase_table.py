"""The table of phases, completely: every phase, every action, every event."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.api import kinds
from stromboli.api.batch import Action, JobEvent, JobPhase
from stromboli.api.scheduling import PodGroup, PodGroupStatus
from stromboli.api.wire import read_object
from stromboli.contracts.intents import CreateObject, DeleteObject, PatchObject
from stromboli.lifecycle import reference
from stromboli.lifecycle.asking import Asker, Basis
from stromboli.lifecycle.census import Census, Member, member_of
from stromboli.lifecycle.jobs import Situation, decide_job
from stromboli.lifecycle.phases import (
    ENDS_IN,
    FINISHED,
    KILLING,
    LEADS_TO,
    TABLE,
    TARGETED,
    Keep,
    Rule,
    What,
    effect_of,
    settled,
)
from stromboli.lifecycle.world import Entry
from stromboli.testkit import sample_jobs
from stromboli.testkit.sample_jobs import Manifest

NOW = 1_700_000_000.0
CREATED = "2023-11-14T22:00:00Z"
ACTIONS = (*Action, "Nonsense")

# Volcano's state machine, written down once more and independently of the code: what happens to
# the pods, what is kept, which phase is entered, whether it counts as a retry, by which rule the
# phase changes otherwise. Two things differ on purpose (docs/compatibility.md): a job that
# restarts can be ended, and one that is resumed runs its failed pods again.
KILL, PART, SYNC = What.KILL, What.KILL_TARGET, What.SYNC
SOFT, DONE, NONE = Keep.FINISHED, Keep.SUCCEEDED, Keep.NOTHING
ALIVE: dict[str, tuple[Any, ...]] = {
    "RestartJob": (KILL, NONE, "Restarting", True, Rule.STAY),
    "RestartTask": (PART, SOFT, "Restarting", True, Rule.STAY),
    "RestartPod": (PART, SOFT, "Restarting", True, Rule.STAY),
    "RestartPartition": (PART, SOFT, "Restarting", True, Rule.STAY),
    "AbortJob": (KILL, SOFT, "Aborting", False, Rule.STAY),
    "CompleteJob": (KILL, SOFT, "Completing", False, Rule.STAY),
    "TerminateJob": (KILL, SOFT, "Terminating", False, Rule.STAY),
}
RESUME: dict[str, tuple[Any, ...]] = {
    "ResumeJob": (KILL, DONE, "Restarting", True, Rule.STAY),
}
EXPECTED: dict[str, tuple[dict[str, tuple[Any, ...]], tuple[Any, ...]]] = {
    "Pending": (ALIVE, (SYNC, SOFT, None, False, Rule.ONCE_AVAILABLE)),
    "Running": (ALIVE, (SYNC, SOFT, None, False, Rule.AS_PODS_END)),
    "Restarting": (
        {
            "RestartJob": (KILL, NONE, None, False, Rule.ONCE_RESTARTED),
            "AbortJob": ALIVE["AbortJob"],
            "CompleteJob": ALIVE["CompleteJob"],
            "TerminateJob": ALIVE["TerminateJob"],
            "RestartTask": (PART, SOFT, None, False, Rule.ONCE_RESTARTED),
            "RestartPod": (PART, SOFT, None, False, Rule.ONCE_RESTARTED),
            "RestartPartition": (PART, SOFT, None, False, Rule.ONCE_RESTARTED),
        },
        (SYNC, SOFT, None, False, Rule.ONCE_RESTARTED),
    ),
    "Aborting": (RESUME, (KILL, SOFT, None, False, Rule.ONCE_ENDED)),
    "Aborted": (RESUME, (KILL, SOFT, None, False, Rule.STAY)),
    "Completing": ({}, (KILL, SOFT, None, False, Rule.ONCE_ENDED)),
    "Terminating": ({}, (KILL, SOFT, None, False, Rule.ONCE_ENDED)),
    "Completed": ({}, (KILL, SOFT, None, False, Rule.STAY)),
    "Failed": ({}, (KILL, SOFT, None, False, Rule.STAY)),
    "Terminated": ({}, (KILL, SOFT, None, False, Rule.STAY)),
}


@pytest.mark.parametrize("phase", list(JobPhase))
@pytest.mark.parametrize("action", ACTIONS)
def test_every_pair_of_phase_and_action_does_what_is_written_here(phase: JobPhase, action: str):
    rows, otherwise = EXPECTED[phase]
    # What nobody knows is as harmless as a sync.
    wanted = rows.get("SyncJob" if action == "Nonsense" else action, otherwise)
    effect = effect_of(phase, action)

    assert (effect.what, effect.enters, effect.counts_as_retry, effect.rule) == (
        *(wanted[0], wanted[2], wanted[3], wanted[4]),
    )
    if effect.what is What.KILL:
        assert effect.keep is wanted[1]
    begins = effect.what is What.KILL and (effect.enters or phase is JobPhase.RESTARTING)
    assert effect.begins_version is bool(begins)


def test_every_phase_can_be_reached_and_only_finished_ones_are_never_left():
    reached, left = {JobPhase.PENDING}, set[JobPhase]()
    for before, after, _ in reference.arrows():
        reached.add(after)
        left.add(before)

    assert reached == set(JobPhase) == set(TABLE)
    assert set(JobPhase) - left == FINISHED


def test_the_page_of_the_documentation_is_made_from_the_table():
    page = Path(__file__).parents[3] / "docs" / "reference" / "job-lifecycle.md"

    assert page.read_text(encoding="utf-8") == reference.page(), "run make generate"


counts = st.integers(0, 5)


@given(
    phase=st.sampled_from(list(JobPhase)),
    action=st.sampled_from(list(Action)),
    pods=st.tuples(counts, counts, counts, counts, counts),
    spec=st.tuples(counts, st.one_of(st.none(), st.integers(1, 5)), st.integers(0, 3)),
    retry_count=st.integers(0, 4),
)
def test_a_rule_leads_nowhere_but_where_the_table_says(
    phase: JobPhase,
    action: Action,
    pods: tuple[int, int, int, int, int],
    spec: tuple[int, int | None, int],
    retry_count: int,
):
    min_available, min_success, max_retry = spec
    fields: Manifest = {"minAvailable": min_available, "maxRetry": max_retry}
    if min_success is not None:
        fields["minSuccess"] = min_success
    manifest = sample_jobs.job("j", sample_jobs.task("t", 3), **fields)
    pending, running, succeeded, failed, terminating = pods
    census = Census(
        pending=pending,
        running=running,
        succeeded=succeeded,
        failed=failed,
        terminating=terminating,
    )
    rule = effect_of(phase, action).rule
    after = settled(
        rule, phase, read_object(kinds.VC_JOB, manifest), census, retry_count=retry_count
    )

    allowed = {ENDS_IN[phase]} if rule is Rule.ONCE_ENDED else set(LEADS_TO[rule])
    assert after in {phase, *allowed}


# Every phase, every event, every action: through a whole decision.


def pod(index: int, phase: str, *, exit_code: int = 0, restarts: int = 0) -> Member:
    container = {
        "name": "t",
        "restartCount": restarts,
        "state": {"terminated": {"exitCode": exit_code}} if phase == "Failed" else {},
    }
    manifest = {
        "metadata": {
            "name": f"j-t-{index}",
            "namespace": "default",
            "uid": f"pod-{index}",
            "creationTimestamp": CREATED,
            "annotations": {
                "volcano.sh/task-spec": "t",
                "volcano.sh/task-index": str(index),
                "volcano.sh/job-version": "0",
            },
        },
        "status": {"phase": phase, "containerStatuses": [container]},
    }
    member = member_of(read_object(kinds.POD, manifest), uid=f"pod-{index}")
    assert member is not None
    return member


BOTH_RUN = (pod(0, "Running"), pod(1, "Running"))
HAPPENED: dict[JobEvent, tuple[tuple[Member, ...], Manifest]] = {
    # event: (the pods, how the rest differs)
    JobEvent.ANY: ((pod(0, "Failed", exit_code=1), pod(1, "Running")), {}),
    JobEvent.POD_FAILED: ((pod(0, "Failed", exit_code=1), pod(1, "Running")), {}),
    JobEvent.POD_EVICTED: ((pod(1, "Running"),), {}),
    JobEvent.POD_PENDING: ((pod(0, "Pending"), pod(1, "Running")), {"timeout": "1s"}),
    JobEvent.TASK_COMPLETED: ((pod(0, "Succeeded"), pod(1, "Succeeded")), {"others": 1}),
    JobEvent.TASK_FAILED: ((pod(0, "Running", restarts=3), pod(1, "Running")), {}),
    JobEvent.UNKNOWN: (BOTH_RUN, {"gang": "Unknown"}),
    JobEvent.JOB_UPDATED: (BOTH_RUN, {"generation": 2}),
    JobEvent.POD_RUNNING: (BOTH_RUN, {}),
    JobEvent.OUT_OF_SYNC: (BOTH_RUN, {}),
    JobEvent.COMMAND_ISSUED: (BOTH_RUN, {}),
}
NEVER = {JobEvent.POD_RUNNING, JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED}
NO_POD = {JobEvent.UNKNOWN, JobEvent.JOB_UPDATED}


def situation(phase: JobPhase, event: JobEvent, action: str) -> Situation:
    members, differs = HAPPENED[event]
    policy = {"event": event, "action": action}
    if "timeout" in differs:
        policy["timeout"] = differs["timeout"]
    partitions = {"totalPartitions": 2, "partitionSize": 1}
    tasks = [sample_jobs.task("t", 2, partitionPolicy=partitions)]
    if "others" in differs:
        tasks.append(sample_jobs.task("other", 1))
    manifest = sample_jobs.job("j", *tasks, policies=[policy], maxRetry=5)
    records = {"stromboli/pods-t": "0-1", "stromboli/generation": "1"}
    generation = differs.get("generation", 1)
    manifest["metadata"] |= {"namespace": "default", "uid": "u", "generation": generation}
    manifest["status"] = {"state": {"phase": phase}, "controlledResources": records}
    gang = PodGroup(status=PodGroupStatus(phase=differs.get("gang", "Running")))
    return Situation(
        job=read_object(kinds.VC_JOB, manifest),
        members=members,
        group=Entry("gang", "1", gang),
        now=NOW,
    )


def asked(one: Situation) -> tuple[str, str, list[Any]]:
    """The action taken, the phase reached, and what was asked for without what is told."""
    asker = Asker("vcjob/default/j", Basis())
    decision = decide_job(one, asker)
    assert decision is not None
    return decision.action, decision.phase, list(_shown(asker))


def _shown(asker: Asker) -> Iterator[Any]:
    for intent in asker.intents:
        if isinstance(intent, CreateObject) and intent.kind != "event":
            yield ("create", intent.kind, intent.name)
        elif isinstance(intent, PatchObject):
            yield ("patch", intent.kind, msgspec.json.decode(intent.patch))
        elif isinstance(intent, DeleteObject):
            yield ("delete", intent.kind, intent.name)


def is_answered(phase: JobPhase, event: JobEvent) -> bool:
    if phase in KILLING or event in NEVER:
        return False
    return not (phase is JobPhase.RESTARTING and event is JobEvent.TASK_COMPLETED)


def has_target(event: JobEvent, action: str) -> bool:
    if action not in TARGETED or event not in {*NO_POD, JobEvent.TASK_COMPLETED}:
        return True
    return event is JobEvent.TASK_COMPLETED and action == Action.RESTART_TASK


@pytest.mark.parametrize("phase", list(JobPhase))
@pytest.mark.parametrize("event", list(JobEvent))
def test_every_event_in_every_phase_is_answered_by_its_policy_or_changes_nothing(
    phase: JobPhase, event: JobEvent
):
    _, resting_phase, resting = asked(situation(phase, event, "SyncJob"))
    for action in ACTIONS:
        taken, reached, wishes = asked(situation(phase, event, action))
        effect = effect_of(phase, action)
        if not is_answered(phase, event):
            assert (taken, reached, wishes) == ("SyncJob", resting_phase, resting), action
        elif not has_target(event, action) or effect.what is What.SYNC:
            assert (reached, without_records(wishes)) == (
                *(resting_phase, without_records(resting)),
            ), action
        else:
            assert taken == action
            assert reached == (effect.enters or reached)
            deleted = {name for verb, kind, name in wishes if (verb, kind) == ("delete", "pod")}
            assert deleted == ended_pods(situation(phase, event, action), action, effect.keep)


def without_records(wishes: list[Any]) -> list[Any]:
    """Which generation a policy was asked about is noted only where one wants to know."""
    for _, _, patch in wishes:
        if isinstance(patch, dict):
            patch.get("status", {}).pop("controlledResources", None)
    return wishes


def ended_pods(one: Situation, action: str, keep: Keep) -> set[str]:
    """What must end, worked out from the words of the reference."""
    names: set[str] = set()
    for member in one.members:
        finished = member.phase in ("Succeeded", "Failed")
        if action in (Action.RESTART_POD, Action.RESTART_PARTITION):
            hit = member.index == 0
        elif action == Action.RESTART_TASK:
            hit = True
        else:
            hit = not (keep is Keep.FINISHED and finished)
        if hit:
            names.add(member.name)
    return names
