"""Whatever happens to a job, in whatever order it is heard: some things always hold."""

import itertools
from collections import Counter, deque
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Reason
from stromboli.contracts.stimuli import FactChanged, OutcomeHeard, Stimulus, WokeUp
from stromboli.gateway.checks import check
from stromboli.lifecycle.controllers.registry import CONTROLLERS, kinds_read_by
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.records import Records
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import Manifest, job, task
from stromboli.testkit.simulated_gateway import SimulatedGateway

pytestmark = pytest.mark.timeout(300)

FINISHED = ("Completed", "Failed", "Terminated")
ENDING = (*FINISHED, "Aborting", "Aborted", "Completing", "Terminating")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "JobUpdated", "*")
RESTARTS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition")
ACTIONS = (*RESTARTS * 3, "AbortJob", "ResumeJob", "SyncJob", "TerminateJob", "CompleteJob")
"""Restarts more often than what ends a job: then nothing more could happen to it."""
ORDERS = ("RestartJob", "AbortJob", "ResumeJob") * 2 + ("TerminateJob", "CompleteJob", "RestartPod")
TASKS = {"a": 3, "b": 2}

policies = st.lists(
    st.fixed_dictionaries(
        {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
        optional={"timeout": st.sampled_from(["30s", "5m"])},
    ),
    max_size=3,
    unique_by=lambda policy: policy["event"],
)
which = st.integers(0, 4)
"""Of the pods that there are."""


def as_the_gateway_checks(intent: AnyIntent) -> tuple[Reason, str] | None:
    refusal = check(intent, intent.subject())
    return None if refusal is None else (refusal.reason, refusal.message)


class AnyLife(RuleBasedStateMachine):
    """The scheduler, kubelets, people and crashes do as they like; the core keeps up."""

    scenario: JobScenario

    @initialize(
        policies=policies,
        max_retry=st.integers(0, 4),
        min_available=st.integers(0, 5),
        seed=st.integers(0, 2**16),
        runs=st.booleans(),
    )
    def begin(
        self,
        policies: list[Manifest],
        max_retry: int,
        min_available: int,
        seed: int,
        runs: bool,
    ) -> None:
        turns = itertools.count()
        gateway = SimulatedGateway(watched=kinds_read_by(CONTROLLERS), check=as_the_gateway_checks)
        self.scenario = JobScenario(gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}"))
        self.scenario.settles = False
        self.random = Random(seed)
        self.phase, self.version, self.retry_count = "", 0, 0
        partitions = {"totalPartitions": 3, "partitionSize": 1}
        manifest = job(
            *("j", task("a", TASKS["a"], partitionPolicy=partitions), task("b", TASKS["b"])),
            policies=policies,
            maxRetry=max_retry,
            minAvailable=min_available,
            plugins={"svc": []},
        )
        self.max_retry = max_retry
        self.scenario.submit(manifest)
        self.rest()
        if runs:
            self.the_gang_is_let_in()
            self.all_pods_run()

    def rest(self) -> None:
        """Everything is heard: now and then twice, and in another order where that may be."""
        stimuli = self.scenario.gateway.stimuli
        for _ in range(2000):
            if not stimuli:
                return
            self.mix(stimuli)
            stimulus = stimuli[0]
            self.scenario.driver.step()
            if isinstance(stimulus, FactChanged | OutcomeHeard) and self.random.random() < 0.1:
                for intent in self.scenario.driver.tell(stimulus):
                    self.scenario.gateway.apply(intent)
        raise AssertionError("the core did not come to rest")

    def mix(self, stimuli: deque[Stimulus]) -> None:
        """Facts about one object keep their order, and so do answers; nothing else does."""
        if len(stimuli) < 2 or self.random.random() < 0.5:
            return
        chosen = self.random.randrange(len(stimuli))
        picked = stimuli[chosen]
        before = itertools.islice(stimuli, chosen)
        if all(about(one) != about(picked) for one in before):
            del stimuli[chosen]
            stimuli.appendleft(picked)

    # What happens.

    @rule()
    def the_gang_is_let_in(self) -> None:
        self.scenario.enqueue()
        self.rest()

    @rule()
    def the_scheduler_loses_sight_of_the_gang(self) -> None:
        self.scenario.enqueue("Unknown")
        self.rest()

    @rule()
    def all_pods_run(self) -> None:
        for name in self.scenario.gateway.names("pod"):
            self.fare(name, "Running")
        self.rest()

    @rule()
    def a_job_that_restarts_does_so(self) -> None:
        self.pods_that_end_are_gone()
        self.the_gang_is_let_in()
        self.all_pods_run()

    @precondition(lambda self: len(self.members) > 0)
    @rule(pod=which, phase=st.sampled_from(["Running", "Succeeded", "Failed", "Unknown"]))
    def a_pod_fares_in_some_way(self, pod: int, phase: str) -> None:
        self.fare(self.name_of(pod), phase)
        self.rest()

    def name_of(self, number: int) -> str:
        names = self.scenario.gateway.names("pod")
        return names[number % len(names)]

    def fare(self, name: str, phase: str) -> None:
        found: Any = self.scenario.gateway.get("pod", name)
        if found.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return  # a pod that has ended has ended
        self.scenario.gateway.patch("pod", name, {"status": {"phase": phase}})

    @precondition(lambda self: len(self.members) > 0)
    @rule(pod=which, restarts=st.integers(1, 3))
    def containers_start_again(self, pod: int, restarts: int) -> None:
        status = {"containerStatuses": [{"name": "main", "restartCount": restarts}]}
        self.scenario.gateway.patch("pod", self.name_of(pod), {"status": status})
        self.rest()

    @precondition(lambda self: len(self.members) > 0)
    @rule(pod=which)
    def somebody_deletes_a_pod(self, pod: int) -> None:
        self.scenario.lose_pod(self.name_of(pod))
        self.rest()

    @rule(kind=st.sampled_from(["service", "networkpolicy"]))
    def somebody_deletes_what_a_plugin_needs(self, kind: str) -> None:
        gateway = self.scenario.gateway
        for name in gateway.names(kind):
            gateway.delete(kind, name)
        self.rest()

    @precondition(lambda self: len(self.members) > 0)
    @rule()
    def pods_that_ended_are_cleared_away(self) -> None:
        gateway = self.scenario.gateway
        for name in gateway.names("pod"):
            found: Any = gateway.get("pod", name)
            if found.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                gateway.delete("pod", name)
        self.rest()

    @precondition(lambda self: len(self.members) > 0)
    @rule(pod=which)
    def somebody_tells_a_pod_to_go(self, pod: int) -> None:
        mark = {"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}}
        self.scenario.gateway.patch("pod", self.name_of(pod), mark)
        self.rest()

    @rule()
    def pods_that_end_are_gone(self) -> None:
        self.scenario.release_pods()
        self.rest()

    @rule(action=st.sampled_from(ORDERS))
    def somebody_gives_an_order(self, action: str) -> None:
        self.scenario.order(action, "j", name=f"order-{self.random.random()}")
        self.rest()

    @rule(replicas=st.integers(0, 3))
    def somebody_changes_the_replicas(self, replicas: int) -> None:
        spec: Any = self.scenario.gateway.get("vcjob", "j")["spec"]  # pyright: ignore[reportOptionalSubscript]
        first, *others = spec["tasks"]
        changed = [{**first, "replicas": replicas}, *others]
        self.scenario.gateway.patch("vcjob", "j", {"spec": {"tasks": changed}})
        self.rest()

    @rule(seconds=st.sampled_from([1, 31, 301]))
    def time_passes(self, seconds: int) -> None:
        self.scenario.gateway.now += seconds
        self.scenario.gateway.stimuli.append(WokeUp())
        self.rest()

    @rule()
    def the_core_dies_and_another_takes_over(self) -> None:
        self.scenario.driver.start()
        self.rest()

    @precondition(lambda self: len(self.members) > 0)
    @rule(pod=which, crash_after=st.integers(0, 6))
    def the_core_dies_while_it_acts(self, pod: int, crash_after: int) -> None:
        gateway = self.scenario.gateway
        gateway.delete("pod", self.name_of(pod))
        for _ in range(crash_after):
            if gateway.stimuli:
                self.scenario.driver.step()
        self.scenario.driver.start()
        self.rest()

    # What always holds.

    @property
    def status(self) -> Manifest:
        return self.scenario.status("j")

    @property
    def members(self) -> list[Manifest]:
        gateway = self.scenario.gateway
        return [found for (kind, _, _), found in gateway.objects.items() if kind == "pod"]

    @property
    def staying(self) -> set[tuple[str, int]]:
        found = [pod for pod in self.members if "deletionTimestamp" not in pod["metadata"]]
        return {place(pod) for pod in found}

    @property
    def ended(self) -> dict[str, dict[int, str]]:
        """The pods that the status knows to have ended, be they still there or cleared away."""
        records = Records.read(self.status.get("controlledResources", {}))
        ended: dict[str, dict[int, str]] = {}
        for phase, tasks in (("Succeeded", records.succeeded), ("Failed", records.failed)):
            for name, indexes in tasks.items():
                ended.setdefault(name, {}).update(dict.fromkeys(indexes, phase))
        return ended

    @invariant()
    def what_has_ended_is_remembered_until_it_is_run_again(self) -> None:
        if not self.status.get("state"):
            return
        for pod in self.members:
            ends = "deletionTimestamp" in pod["metadata"]
            phase = pod.get("status", {}).get("phase")
            if phase in ("Succeeded", "Failed") and not ends:
                task, index = place(pod)
                assert self.ended.get(task, {}).get(index) == phase

    @invariant()
    def the_counts_are_those_of_the_pods(self) -> None:
        counted: Counter[str] = Counter(
            phase
            for task, phases in self.ended.items()
            for index, phase in phases.items()
            if (task, index) not in self.staying
        )
        for pod in self.members:
            ends = "deletionTimestamp" in pod["metadata"]
            counted["terminating" if ends else pod.get("status", {}).get("phase", "Pending")] += 1
        status = self.status
        for field, phase in (
            ("pending", "Pending"),
            ("running", "Running"),
            ("succeeded", "Succeeded"),
            ("failed", "Failed"),
            ("unknown", "Unknown"),
            ("terminating", "terminating"),
        ):
            assert status.get(field, 0) == counted[phase], (field, status, counted)

    @invariant()
    def no_pod_of_an_old_version_lives_on(self) -> None:
        for pod in self.members:
            version = int(pod["metadata"]["annotations"]["volcano.sh/job-version"])
            lives = (
                "deletionTimestamp" not in pod["metadata"]
                and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
            )  # fmt: skip
            assert not lives or version == self.status.get("version", 0)

    @invariant()
    def a_job_that_ends_has_no_pod_that_lives(self) -> None:
        if self.status["state"]["phase"] in ENDING:
            for pod in self.members:
                ends = "deletionTimestamp" in pod["metadata"]
                assert ends or pod["status"]["phase"] in ("Succeeded", "Failed")

    @invariant()
    def there_is_one_pod_per_place(self) -> None:
        places = [
            (labels["volcano.sh/task-spec"], labels["volcano.sh/task-index"])
            for labels in (pod["metadata"]["labels"] for pod in self.members)
        ]
        assert len(places) == len(set(places))

    @invariant()
    def a_job_that_lives_and_was_let_in_has_all_its_pods(self) -> None:
        gateway = self.scenario.gateway
        gangs = [gateway.get("vcpodgroup", name) for name in gateway.names("vcpodgroup")]
        let_in = [gang for gang in gangs if gang and gang.get("status", {}).get("phase")]
        if self.status["state"]["phase"] in ("Pending", "Running") and let_in:
            found: Any = gateway.get("vcjob", "j")
            wanted = sum(one["replicas"] for one in found["spec"]["tasks"])
            cleared = {(t, i) for t, some in self.ended.items() for i in some}
            there = {place(pod) for pod in self.members} | cleared
            assert len(there) >= wanted

    @invariant()
    def a_finished_job_stays_finished(self) -> None:
        now = self.status["state"]["phase"]
        assert self.phase not in FINISHED or now == self.phase
        self.phase = now

    @invariant()
    def retries_and_versions_only_grow_and_retries_have_a_limit(self) -> None:
        version, retries = self.status.get("version", 0), self.status.get("retryCount", 0)
        assert self.version <= version
        assert self.retry_count <= retries <= self.max_retry
        self.version, self.retry_count = version, retries

    @invariant()
    def nothing_is_asked_for_that_nobody_may_ask(self) -> None:
        stale = [refused.reason for refused in self.scenario.gateway.refused]
        assert set(stale) <= {Reason.STALE}, self.scenario.gateway.refused

    @invariant()
    def no_command_is_left_over(self) -> None:
        assert self.scenario.gateway.names("command") == []


def place(pod: Manifest) -> tuple[str, int]:
    labels = pod["metadata"]["labels"]
    return labels["volcano.sh/task-spec"], int(labels["volcano.sh/task-index"])


def about(stimulus: Stimulus) -> tuple[str, str]:
    if isinstance(stimulus, FactChanged):
        return stimulus.kind, stimulus.name
    return "answer", ""


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    # A life takes tens of milliseconds, and thousands of them would be tried to shorten one.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
