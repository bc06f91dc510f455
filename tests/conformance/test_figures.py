"""Volcano's own figures: scores, shares, what a gang could give up (reference G1, Share, K1)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stromboli.api.scheduling import SubGroupPolicy
from stromboli.scheduling.actions.bundles import Bundle, bundles_of, filtered
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.plugins.binpack import build
from stromboli.scheduling.pods import Task, TaskClass, read_task
from stromboli.scheduling.resources import Amounts, IntVector, amounts_of
from stromboli.simulating.outcome import outcome_of
from stromboli.testkit.scheduling_objects import pod, pod_group
from stromboli.testkit.scheduling_scenario import simulate

FIGURES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "scheduling" / "figures.yaml").read_text()
)
PART = "part"


def named(case: dict[str, Any]) -> str:
    return case["id"]


# Scores.


@dataclass
class Nodes:
    """The nodes of a case as a plugin is shown them, for a pod that asks for this."""

    case: dict[str, Any]
    request: Amounts
    kind: TaskClass = read_task(pod("any"), frozenset()).kind
    slots: IntVector = field(default_factory=lambda: np.arange(0, dtype=np.int64))

    def allocatable(self, resource: str) -> IntVector:
        return self._units(resource, self.case["nodes"].values())

    def used(self, resource: str) -> IntVector:
        pods, running = self.case["pods"], self.case["running"]
        return self._units(resource, [pods.get(running.get(n), {}) for n in self.case["nodes"]])

    def _units(self, resource: str, amounts: Any) -> IntVector:
        found = [dict(amounts_of("it", one)).get(resource, 0) for one in amounts]
        return np.array(found, dtype=np.int64)


@pytest.mark.parametrize("case", FIGURES["scores"], ids=named)
def test_binpack_gives_the_scores_of_volcano(case: dict[str, Any]):
    plugin = build(case["arguments"])
    for name, wanted in case["scores"].items():
        found = plugin.score(Nodes(case, amounts_of(name, case["pods"][name])))
        by_node = dict(zip(case["nodes"], found.tolist(), strict=True))

        assert by_node == pytest.approx(wanted), name


# Shares.


@pytest.mark.parametrize("case", FIGURES["shares"], ids=named)
def test_a_queue_has_the_share_of_volcano(case: dict[str, Any]):
    cluster = simulate(
        {
            "id": case["id"],
            "actions": "allocate",
            "tiers": [["capacity", "predicates"]],
            "nodes": {"n1": {"cpu": 100, "memory": "100Gi"}},
            "queues": {"q": {"deserved": case["deserved"]}},
            "groups": {"g": {"queue": "q", "pods": {"p": {**case["allocated"], "node": "n1"}}}},
        }
    )

    assert outcome_of(cluster)["queues"]["q"]["share"] == pytest.approx(case["share"])


# What a gang could give up.


def contender_of(tasks: list[Task], case: dict[str, Any]) -> Contender:
    policy = case.get("policy")
    policies = (
        SubGroupPolicy(
            name="p",
            sub_group_size=policy["subGroupSize"],
            min_sub_groups=policy["minSubGroups"],
            match_label_keys=(PART,),
        )
        if policy
        else None
    )
    group = pod_group(
        "g",
        min_member=case["minMember"],
        min_task_member=case.get("minTaskMember", {}),
        sub_group_policy=(policies,) if policies else (),
    )
    job = Job(("test", "g"))
    job.read(group, "1")
    for task in tasks:
        job.put(task)
    return Contender(job=job, queue="q", phase="Running", waiting=[], best_effort=[])


def worker(name: str, *, priority: int = 0, part: str = "") -> Task:
    made = pod(name, group="g", role="worker", on="n", phase="Running", priority=priority)
    if part:
        made.metadata.labels[PART] = part
    return read_task(made, frozenset({"volcano"}))


def names(bundle: Bundle) -> list[str]:
    return [task.name for task in bundle.tasks]


@pytest.mark.parametrize("case", FIGURES["bundles"], ids=named)
def test_a_gang_is_divided_into_what_it_can_spare_and_the_rest(case: dict[str, Any]):
    tasks = [worker(name, priority=number) for name, number in case.get("pods", {}).items()]
    tasks += [worker(name, part=part) for name, part in case.get("parts", {}).items()]
    chosen = case.get("candidates", [task.name for task in tasks])
    candidates = [task for task in tasks if task.name in chosen]
    safe, whole = bundles_of(contender_of(tasks, case), candidates, whole=True)

    assert (safe.is_safe, whole.is_safe) == (True, False)
    assert len(safe.tasks) == case.get("safe_count", len(case.get("safe", ())))
    assert len(whole.tasks) == case.get("whole_count", len(case.get("whole", ())))
    assert "safe" not in case or names(safe) == case["safe"]
    assert "whole" not in case or names(whole) == case["whole"]
    if "allowed" in case:
        may_go = [task for task in tasks if task.name in case["allowed"]]
        assert [names(bundle) for bundle in filtered([safe, whole], may_go)] == case["left"]


@pytest.mark.parametrize("case", FIGURES["worth"], ids=named)
def test_a_bundle_is_worth_what_it_gives_for_what_is_lost(case: dict[str, Any]):
    amounts = {key: amounts_of(key, case[key]) for key in ("need", "gives", "loses")}
    asked = dict(case["gives"])
    task = read_task(
        pod("t", cpu=asked.get("cpu", ""), memory=asked.get("memory", "")), frozenset()
    )
    contender = contender_of([], {"minMember": 0})
    bundle = Bundle(contender, (task,), is_safe=False, lost=amounts["loses"])

    assert bundle.worth(amounts["need"]) == pytest.approx(case["worth"])
