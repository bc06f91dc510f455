"""Every job that has pods to place has exactly one current reason, whatever is configured."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.core import PodSchedulingGate
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import QueueState
from stromboli.api.wellknown import QUEUE_ALLOCATION_GATE
from stromboli.contracts.intents import PodBinding
from stromboli.contracts.stimuli import FactChanged, Ready
from stromboli.scheduling.conf import HIERARCHY_FLAG, PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code, Explanation, Unblock
from stromboli.scheduling.reasons import reason_in
from stromboli.scheduling.status import is_ready
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import add, bound, cluster, code, core_of, group, message

GATES = {
    "": (),
    "mine": (PodSchedulingGate(name="example.com/mine"),),
    "queue": (PodSchedulingGate(name=QUEUE_ALLOCATION_GATE),),
}

ADMITTED = {"phase": "Inqueue"}

confs = st.builds(
    lambda actions, plugins: SchedulingConf(
        actions=tuple(actions), tiers=(tuple(PluginConf(name) for name in plugins),)
    ),
    st.sampled_from(
        [
            ("enqueue", "allocate", "backfill"),
            ("enqueue", "allocate", "backfill", "reclaim", "preempt"),
            ("allocate", "enqueue"),
            ("allocate",),
            ("backfill",),
            ("enqueue",),
            ("enqueue", "preempt"),
            ("reclaim",),
            ("enqueue", "gangpreempt", "gangreclaim"),
        ]
    ),
    st.lists(
        st.sampled_from(
            ["gang", "priority", "overcommit", "drf", "predicates", "proportion", "nodeorder"]
        ),
        unique=True,
    ),
)

jobs = st.fixed_dictionaries(
    {
        "size": st.integers(0, 4),
        "least": st.integers(0, 5),
        "cpu": st.sampled_from(["", "1", "3"]),
        "queue": st.sampled_from(["default", "small", "shut", "nowhere"]),
        "needs": st.sampled_from(["", "1", "100"]),
        "roles": st.sampled_from([{}, {"main": 1}, {"other": 1}]),
        "gate": st.sampled_from(["", "", "mine", "queue"]),
        "zone": st.sampled_from(["", "", "far"]),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        "running": st.integers(0, 2),
    }
)


def made(number: int, said: dict[str, Any]) -> list[KubeObject]:
    name = f"job{number}"
    needs = {"cpu": said["needs"]} if said["needs"] else {}
    spec: dict[str, Any] = {
        "in_queue": said["queue"],
        "min_resources": needs,
        "min_task_member": said["roles"],
    }
    found: list[KubeObject] = []
    found.append(pod_group(name, min_member=said["least"], **spec))
    for place in range(said["size"]):
        starts = place < said["running"] and said["phase"] != "Pending"
        where: dict[str, Any] = {"on": "n0", "phase": said["phase"]} if starts else {}
        gates = () if starts else GATES[said["gate"]]
        found.append(
            pod(
                f"{name}-main-{place}",
                group=name,
                cpu=said["cpu"],
                memory="",
                scheduling_gates=gates,
                node_selector={"zone": said["zone"]} if said["zone"] else {},
                **where,
            )
        )
    return found


def check_everybody_knows_why(simulation: Simulation) -> None:
    core = core_of(simulation)
    reasons = core.reasons()
    for key, job in core.cluster.jobs.items():
        if job.is_wanted and (job.awaited or not is_ready(job)):
            why = reasons[key]
            assert why.sentence
            assert why.unblock
            assert why.code is not Code.PENDING_EVALUATION or simulation.now < why.since + 2
            told = core.explanations.get(key)
            assert told is None or told is why


@given(confs, st.lists(jobs, max_size=4), st.integers(0, 2), st.sets(st.integers(0, 9), max_size=4))
@settings(max_examples=examples(90), deadline=None)
def test_after_any_cycle_every_job_with_pods_to_place_has_a_reason(
    conf: SchedulingConf, given_jobs: list[dict[str, Any]], nodes: int, refused: set[int]
):
    turn = -1

    def may_bind(_: PodBinding) -> bool:
        nonlocal turn
        turn += 1
        return turn not in refused

    simulation = Simulation(SchedulerCore(conf), may_bind=may_bind)
    simulation.put(queue())
    simulation.put(queue("small", capability={"cpu": "1"}))
    simulation.put(queue("shut", state=QueueState.CLOSED))
    for number in range(max(nodes, 1)):
        simulation.put(node(f"n{number}", cpu="4"))
    for number, said in enumerate(given_jobs):
        add(simulation, made(number, said))
        check_everybody_knows_why(simulation)
    for _ in range(3):
        simulation.advance(1.5)
        check_everybody_knows_why(simulation)


def test_a_complete_job_whose_pods_nobody_places_has_a_reason_and_stays_ready():
    conf = SchedulingConf(actions=("reclaim",), tiers=((PluginConf("gang"),),))
    simulation = cluster(node("n1"), gang("job", 1, min_member=0, group=ADMITTED), conf=conf)
    why = core_of(simulation).reasons()["test", "job"]

    assert why.code is Code.MISCONFIGURED
    assert why.sentence == "none of the configured actions (reclaim) places its pods"
    assert message(simulation, "job") == ""
    assert [c.type for c in group(simulation, "job").status.conditions] == ["Scheduled"]


def test_a_complete_job_with_gated_pods_does_not_say_that_it_needs_them():
    gated = pod("job-main-1", group="job", scheduling_gates=GATES["mine"])
    simulation = cluster(node("n1"), gang("job", 1), gated)
    why = core_of(simulation).reasons()["test", "job"]

    assert (
        why.sentence == "1 of its pods are held by scheduling gates, and it has the 1 that it needs"
    )
    ready = [event for event in simulation.events if event["message"] == "pod group is ready"]
    assert len(ready) == 1


def test_room_that_is_free_is_not_said_to_be_waited_for():
    """Nobody is ending: who makes room has found some, and binds nothing."""
    conf = SchedulingConf(
        actions=("preempt",), tiers=((PluginConf("gang"), PluginConf("predicates")),)
    )
    simulation = cluster(node("n1"), gang("job", 1, group=ADMITTED), conf=conf)
    why = core_of(simulation).reasons()["test", "job"]

    assert core_of(simulation).pipelined
    assert (why.code, why.unblock) == (Code.MISCONFIGURED, Unblock.CONFIGURATION)
    assert why.sentence == (
        "there is room for 1 of its pods, but none of the configured actions (preempt) binds them"
    )


SHARING = [("proportion", False), ("capacity", False), ("capacity", True)]


def sharing(plugin: str, *, tree: bool) -> SchedulingConf:
    named = PluginConf(plugin, flags={HIERARCHY_FLAG: tree})
    return SchedulingConf(
        actions=("enqueue", "allocate"),
        tiers=((PluginConf("gang"), PluginConf("predicates"), named),),
    )


@pytest.mark.parametrize(("plugin", "tree"), SHARING)
def test_a_job_beyond_the_limit_of_its_queue_waits_for_the_limit_and_not_for_pods(
    plugin: str, tree: bool
):
    conf = sharing(plugin, tree=tree)
    objects = [node("n1", cpu="8"), queue("q", capability={"cpu": "1"})]
    simulation = cluster(*objects, gang("job", 2, group={"in_queue": "q"}), conf=conf)
    why = core_of(simulation).explanations["test", "job"]

    assert (why.code, why.unblock) == (Code.EXCEEDS_MAX, Unblock.LIMIT)
    assert why.sentence == (
        "queue 'q' may use at most 1 cpu; the job needs 2 cpu, "
        "which is more than that, whoever else uses it"
    )
    add(simulation, queue("q", capability={"cpu": "2"}))
    assert len(bound(simulation)) == 2


@pytest.mark.parametrize(("plugin", "tree"), SHARING)
def test_a_job_that_guarantees_of_others_keep_out_names_them(plugin: str, tree: bool):
    objects = [
        node("n1", cpu="4"),
        queue("root", capability={"cpu": "4"}) if tree else queue("root"),
        queue("q"),
        queue("greedy", guarantee={"cpu": "100"}),
        queue("modest", guarantee={"cpu": "1"}),
    ]
    conf = sharing(plugin, tree=tree)
    simulation = cluster(*objects, gang("job", 1, group={"in_queue": "q"}), conf=conf)
    why = core_of(simulation).explanations["test", "job"]

    assert why.code is Code.EXCEEDS_MAX
    assert why.sentence.startswith(
        "queue 'q' may use at most 0 cpu, because of guarantees to "
        "queue greedy (100 cpu), queue modest (1 cpu); the job needs 1 cpu"
    )
    add(simulation, queue("greedy", guarantee={"cpu": "2"}))
    assert len(bound(simulation)) == 1


def test_a_queue_that_its_own_capability_limits_blames_nobody():
    objects = [
        node("n1", cpu="4"),
        queue("q", capability={"cpu": "1"}),
        queue("other", guarantee={"cpu": "1"}),
    ]
    conf = sharing("capacity", tree=False)
    simulation = cluster(*objects, gang("job", 2, group={"in_queue": "q"}), conf=conf)

    assert "guarantees" not in core_of(simulation).explanations["test", "job"].sentence


@pytest.mark.parametrize(
    ("above", "unblock"),
    [("low", Unblock.LEAF), ("", Unblock.QUEUE_MENDED)],
    ids=["not a leaf", "no such parent"],
)
def test_a_job_in_a_queue_that_takes_none_says_once_why_and_what_would_help(
    above: str, unblock: Unblock
):
    objects = [
        node("n1"),
        queue("root"),
        queue("q", parent="" if above else "gone"),
        *([queue(above, parent="q")] if above else []),
    ]
    conf = sharing("capacity", tree=True)
    job = gang("job", 1, group={"in_queue": "q", **ADMITTED})
    simulation = cluster(*objects, job, conf=conf)
    why = core_of(simulation).explanations["test", "job"]

    assert (why.code, why.unblock) == (Code.MISCONFIGURED, unblock)
    assert message(simulation, "job").count(why.sentence) == 1
    if above:
        simulation.delete("queue", "", above)
        simulation.run()
    else:
        add(simulation, queue("q"))
    assert len(bound(simulation)) == 1


def test_a_job_that_nobody_has_looked_at_says_so():
    core = SchedulerCore(PLAIN)
    group = pod_group("a", min_member=1)
    facts = [("queue", queue()), ("node", node("n1")), ("vcpodgroup", group)]
    for kind, item in facts:
        fact = FactChanged(
            kind=kind,
            namespace=item.metadata.namespace,
            name=item.metadata.name,
            uid=item.metadata.uid,
            resource_version="1",
            after=item,
        )
        core.handle(fact, now=1.0)

    assert core.reasons()["test", "a"].code is Code.PENDING_EVALUATION
    core.handle(Ready(), now=2.0)
    assert core.reasons()["test", "a"].code is Code.GANG_INCOMPLETE


def test_pods_that_no_configured_action_places_are_told_so():
    simulation = cluster(
        node("n1"),
        pod_group("a", min_member=1),
        pod("a-main-0", group="a", cpu="", memory=""),
        conf=SchedulingConf(actions=("enqueue", "allocate"), tiers=PLAIN.tiers),
    )
    why = core_of(simulation).reasons()["test", "a"]

    assert code(simulation, "a") is Code.MISCONFIGURED
    assert why.unblock is Unblock.CONFIGURATION
    assert "none of the configured actions (enqueue, allocate) places its pods" in message(
        simulation, "a"
    )


def test_pods_that_are_still_missing_are_a_reason_at_once_though_it_is_not_told_yet():
    simulation = cluster(node("n1"), gang("a", 1, min_member=2))
    assert code(simulation, "a") is None
    assert core_of(simulation).reasons()["test", "a"].code is Code.GANG_INCOMPLETE

    simulation.advance(1.5)
    assert code(simulation, "a") is Code.GANG_INCOMPLETE


@pytest.mark.parametrize("actions", [("allocate", "enqueue"), ("enqueue", "allocate")])
def test_a_job_that_is_admitted_after_its_turn_has_another_one(actions: tuple[str, ...]):
    simulation = cluster(
        node("n1"), gang("a", 1), conf=SchedulingConf(actions=actions, tiers=PLAIN.tiers)
    )

    assert len(bound(simulation)) == 1
    assert core_of(simulation).reasons() == {}
    assert not [line for line in simulation.history if line.what == "job.waiting"]


@pytest.mark.parametrize("code", list(Code))
def test_whoever_has_only_the_condition_can_read_the_reason(code: Code):
    text = "task-6: 0/3 nodes are unavailable: 1 node(s) pod number exceeded."
    why = Explanation(code, "it lacks 1. something: else", Unblock.CAPACITY, ahead_in_all=1)
    found = reason_in(f"1/1 tasks in gang unschedulable. Origin reason is {text} {why.text}")
    alone = reason_in(why.text)

    assert found is not None
    assert (found.code, f"{found.code}: {found.sentence}") == (code, why.text)
    assert alone == found
    assert reason_in(text) is None


def test_the_reason_stands_in_the_condition_as_it_can_be_read():
    simulation = cluster(node("n1", cpu="1"), gang("a", 2))
    found = reason_in(message(simulation, "a"))

    assert found is not None
    assert found.code is code(simulation, "a")
    assert f"{found.code}: {found.sentence}" == core_of(simulation).reasons()["test", "a"].text
