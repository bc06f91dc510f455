"""Jobs that may take room from each other come to rest, in every order of actions."""

from itertools import combinations, permutations
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf_file import read_conf
from stromboli.testkit.effort import examples
from stromboli.testkit.returning_victims import ReturningVictims, Story
from stromboli.testkit.scheduling_objects import node, pod, pod_group, priority_class, queue

pytestmark = pytest.mark.timeout(240)

CHART: Final = """
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
"""
GUIDE: Final = """
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - {name: drf}
  - {name: predicates}
  - {name: capacity}
  - {name: nodeorder}
  - {name: binpack, arguments: {binpack.weight: 5}}
"""
QUEUES: Final = """
- plugins: [{name: queuepolicy}, {name: namespacefair}, {name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""
OURS: Final = """
- plugins:
  - {name: priority}
  - {name: gang, enablePreemptable: false}
  - {name: reservation}
  - {name: min-run-time, arguments: {min-run-time: 5s}}
  - {name: eviction-budget, arguments: {evictions: 100, evictions-per-queue: 20, window: 1m}}
- plugins: [{name: predicates}, {name: capacity, enableJobEnqueued: false}, {name: nodeorder}]
"""
BUILT_IN: Final = """
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - {name: overcommit}
  - {name: drf}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""
TREE_DRF: Final = """
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}]
"""
TREE_CAPACITY: Final = """
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
"""
GANG_ALONE: Final = """
- plugins: [{name: priority}]
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""
CONFORMANCE_ALONE: Final = """
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: conformance}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
TIERS: Final = {
    "chart": CHART,
    "guide": GUIDE,
    "queues": QUEUES,
    "ours": OURS,
    "built-in": BUILT_IN,
    "drf-tree": TREE_DRF,
    "capacity-tree": TREE_CAPACITY,
    "gang-alone": GANG_ALONE,
    "conformance-alone": CONFORMANCE_ALONE,
}
KEEPS_GANGS: Final = frozenset(TIERS) - {"chart", "ours"}
"""Where gang has its say on victims."""
EVICTING: Final = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
ORDERS: Final = [
    order
    for number in (1, 2)
    for evicting in combinations(EVICTING, number)
    for order in permutations(("enqueue", "allocate", "backfill", *evicting))
]
GENTLY: Final = """
configurations:
- name: preempt
  arguments: {enableTopologyAwarePreemption: true}
"""

jobs = st.fixed_dictionaries(
    {
        "pods": st.integers(1, 4),
        "least": st.integers(0, 4),
        "cpu": st.sampled_from([0, 1, 1, 1, 2, 2, 3]),
        "odd": st.sampled_from([None, None, None, 0, 1, 2]),
        "priority": st.sampled_from(["", "", "high"]),
        "queue": st.sampled_from(["a", "b", "c"]),
        "ranked": st.booleans(),
    }
)
steps = st.one_of(jobs, jobs, jobs, st.integers(0, 7))
stories = st.fixed_dictionaries(
    {
        "nodes": st.lists(
            st.tuples(st.integers(1, 6), st.sampled_from([2, 3, 110])), min_size=1, max_size=3
        ),
        "deserved": st.tuples(*[st.sampled_from([None, 0, 1, 2, 4])] * 3),
        "weights": st.tuples(*[st.integers(1, 3)] * 3),
        "guarantee": st.sampled_from([None, None, 1]),
        "steps": st.lists(steps, min_size=2, max_size=7),
    }
)


def queues_of(story: dict[str, Any]) -> list[KubeObject]:
    found: list[KubeObject] = [queue("left"), queue("right")]
    for number, name in enumerate("abc"):
        deserved, weight = story["deserved"][number], story["weights"][number]
        branch = "left" if name == "a" else "right"
        found.append(
            queue(
                name,
                weight=weight,
                parent=branch,
                deserved={} if deserved is None else {"cpu": str(deserved)},
                guarantee={"cpu": "1"} if name == "a" and story["guarantee"] else {},
                annotations={
                    "volcano.sh/hierarchy": f"root/{branch}/{name}",
                    "volcano.sh/hierarchy-weights": f"1/1/{weight}",
                },
            )
        )
    return found


def job_of(name: str, job: dict[str, Any]) -> list[KubeObject]:
    """`odd` is what its last pod asks for, `ranked` whether its pods matter more and less."""
    size = job["pods"]
    found: list[KubeObject] = [
        pod_group(
            name,
            min_member=min(job["least"], size),
            in_queue=job["queue"],
            priority_class_name=job["priority"],
        )
    ]
    for at in range(size):
        last = at == size - 1
        cpu = job["cpu"] if job["odd"] is None or not last else job["odd"]
        found.append(
            pod(
                f"{name}-main-{at}",
                group=name,
                cpu=str(cpu) if cpu else "",
                memory="1Gi" if cpu else "",
                priority=at if job["ranked"] else 0,
            )
        )
    return found


def told(tiers: str, actions: tuple[str, ...], story: dict[str, Any]) -> Story:
    text = f"actions: {', '.join(actions)}\ntiers:{TIERS[tiers]}"
    if tiers == "guide" and "preempt" in actions:
        text += GENTLY
    victims = ReturningVictims(read_conf(text), keeps_gangs=tiers in KEEPS_GANGS)
    victims.put(queues_of(story))
    victims.put([priority_class("high", 10)])
    victims.put(
        node(f"n{at}", cpu=str(cpu), memory="64Gi", pods=str(pods))
        for at, (cpu, pods) in enumerate(story["nodes"])
    )
    running: list[str] = []
    for number, step in enumerate(story["steps"]):
        if isinstance(step, int):
            if not running:
                continue
            victims.end(running.pop(step % len(running)))
        else:
            running.append(f"job{number}")
            victims.put(job_of(running[-1], step))
        victims.rest()
    return victims.story


@settings(max_examples=examples(300))
@given(tiers=st.sampled_from(sorted(TIERS)), actions=st.sampled_from(ORDERS), story=stories)
def test_whoever_may_take_from_others_the_cluster_comes_to_rest(
    tiers: str, actions: tuple[str, ...], story: dict[str, Any]
):
    assert told(tiers, actions, story).faults == []
