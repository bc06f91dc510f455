"""The gate of a queue, as far as scenarios can't tell: answers, silence, and what is asked."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stromboli.api.core import Pod, PodSchedulingGate
from stromboli.api.meta import KubeObject
from stromboli.api.wellknown import QUEUE_ALLOCATION_GATE
from stromboli.contracts.intents import PatchObject
from stromboli.contracts.outcomes import Reason, Refused, Uncertain
from stromboli.contracts.stimuli import OutcomeHeard, WokeUp
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.simulating.hosting import Hosted
from stromboli.testkit.scheduling_objects import node, pod, pod_group, queue
from stromboli.testkit.small_clusters import add, bound, cluster, code, core_of, message

CONF = SchedulingConf(
    tiers=tuple((PluginConf(name),) for name in ("gang", "capacity", "predicates")),
    actions=("enqueue", "allocate"),
)
GATE = PodSchedulingGate(name=QUEUE_ALLOCATION_GATE)


def gated(name: str, group: str, **spec: Any) -> Pod:
    made = pod(name, group=group, scheduling_gates=(GATE,), **spec)
    annotations = {**made.metadata.annotations, QUEUE_ALLOCATION_GATE: "true"}
    return replace(made, metadata=replace(made.metadata, annotations=annotations))


def gang_at_gate(name: str, size: int, **spec: Any) -> list[KubeObject]:
    members = [gated(f"{name}-main-{number}", name, **spec) for number in range(size)]
    return [pod_group(name, min_member=size), *members]


def openings(said: list[Any]) -> list[PatchObject]:
    return [i for i in said if isinstance(i, PatchObject) and b"schedulingGates" in i.patch]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the core asks for; nobody does it."""
    heard: list[Any] = []
    monkeypatch.setattr(Hosted, "perform", lambda _, out: heard.extend(out))
    return heard


def refused(intent: PatchObject) -> OutcomeHeard:
    return OutcomeHeard(
        Refused(
            intent_id=intent.id,
            service="scheduler",
            verb=intent.verb,
            kind="pod",
            key=intent.key,
            reason=Reason.NOT_ALLOWED,
            message="no",
        )
    )


def uncertain(intent: PatchObject) -> OutcomeHeard:
    return OutcomeHeard(
        Uncertain(
            intent_id=intent.id,
            service="scheduler",
            verb=intent.verb,
            kind="pod",
            key=intent.key,
            message="nobody knows",
        )
    )


def test_only_the_gates_of_this_very_pod_are_asked_for(said: list[Any]):
    cluster(node("n1"), gang_at_gate("a", 1), conf=CONF)

    (patch,) = openings(said)
    assert (patch.kind, patch.name, patch.subresource) == ("pod", "a-main-0", "")
    assert patch.uid
    assert msgspec.json.decode(patch.patch) == {"spec": {"schedulingGates": None}}


def test_while_nobody_has_answered_it_is_not_asked_again(said: list[Any]):
    simulation = cluster(node("n1"), gang_at_gate("a", 2), conf=CONF)
    before = len(openings(said))
    said += simulation.core.handle(WokeUp(), now=simulation.now)
    # Whatever else happens to the pod, the gate that it shows is the one that is being opened.
    found = simulation.get("pod", "test", "a-main-0")
    labels = {**found.metadata.labels, "x": "y"}
    add(simulation, replace(found, metadata=replace(found.metadata, labels=labels)))
    said += simulation.core.handle(WokeUp(), now=simulation.now)

    assert before == 2
    assert len(openings(said)) == before
    assert code(simulation, "a") is Code.HELD
    assert "lets them through" in core_of(simulation).explanations["test", "a"].sentence


def test_meanwhile_the_queue_keeps_room_for_it(said: list[Any]):
    simulation = cluster(
        queue("default", capability={"cpu": "2"}), node("n1"), gang_at_gate("a", 2), conf=CONF
    )
    add(simulation, pod_group("b", min_member=1), pod("b-main-0", group="b"))
    said += simulation.core.handle(WokeUp(), now=simulation.now)

    assert len(openings(said)) == 2
    assert code(simulation, "b") is Code.QUEUE_LIMIT


@pytest.mark.parametrize("how", ["refused", "uncertain"])
def test_refusal_and_doubt_give_the_room_to_others_and_it_is_asked_again(how: str, said: list[Any]):
    simulation = cluster(
        queue("default", capability={"cpu": "1"}), node("n1"), gang_at_gate("a", 1), conf=CONF
    )
    (first,) = openings(said)
    said.clear()
    outcome = refused(first) if how == "refused" else uncertain(first)
    simulation.core.handle(outcome, now=simulation.now)
    said += simulation.core.handle(WokeUp(), now=simulation.now + 11)

    (again,) = openings(said)
    assert (again.uid, again.patch) == (first.uid, first.patch)
    assert again.id != first.id


def test_what_a_refusal_set_free_wakes_who_waits_for_it(said: list[Any]):
    simulation = cluster(
        queue("default", capability={"cpu": "1"}), node("n1"), gang_at_gate("a", 1), conf=CONF
    )
    add(simulation, pod_group("b", min_member=1), pod("b-main-0", group="b"))
    said += simulation.core.handle(WokeUp(), now=simulation.now)
    assert code(simulation, "b") is Code.QUEUE_LIMIT

    (first,) = openings(said)
    woken = simulation.core.handle(refused(first), now=simulation.now)
    assert woken  # a cycle is asked for: others may have the room


def test_another_scheduler_asks_for_what_is_still_closed_and_for_nothing_else():
    simulation = cluster(
        queue("default", capability={"cpu": "2"}),
        node("n1", labels={"disk": "slow"}),
        gang_at_gate("a", 1, node_selector={"disk": "fast"}),
        conf=CONF,
    )
    assert simulation.get("pod", "test", "a-main-0").spec.scheduling_gates == ()
    add(simulation, gang_at_gate("b", 2))
    assert code(simulation, "b") is Code.QUEUE_LIMIT

    asked = len(openings(simulation.intents))
    simulation.restart(SchedulerCore(CONF))
    assert code(simulation, "b") is Code.QUEUE_LIMIT
    assert len(openings(simulation.intents)) == asked


def test_a_pod_that_is_gone_keeps_no_room():
    simulation = cluster(
        queue("default", capability={"cpu": "1"}),
        node("n1", labels={"disk": "slow"}),
        gang_at_gate("a", 1, node_selector={"disk": "fast"}),
        conf=CONF,
    )
    add(simulation, pod_group("b", min_member=1), pod("b-main-0", group="b"))
    assert bound(simulation) == {}
    assert "may use at most 1 cpu" in message(simulation, "b")

    simulation.delete("pod", "test", "a-main-0")
    simulation.run()
    assert bound(simulation) == {"b-main-0": "n1"}
