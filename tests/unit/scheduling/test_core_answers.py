"""What the core makes of refusals and of time."""

from typing import Any

import pytest

from stromboli.contracts.intents import BindGang, EvictPod, PatchObject
from stromboli.contracts.outcomes import Reason, Refused
from stromboli.contracts.stimuli import OutcomeHeard, WokeUp
from stromboli.scheduling.explain import Code
from stromboli.simulating.hosting import Hosted
from stromboli.testkit.scheduling_objects import (
    gang,
    node,
    pod_group,
    priority_class,
)
from stromboli.testkit.small_clusters import (
    add,
    bound,
    change,
    cluster,
    code,
    core_of,
    group,
    message,
)

# Refusals, time.


def refused(intent: BindGang | PatchObject) -> OutcomeHeard:
    return OutcomeHeard(
        Refused(
            intent_id=intent.id,
            service="scheduler",
            verb=intent.verb,
            kind=intent.kind,
            key=intent.key,
            reason=Reason.EXPIRED,
            message="too late",
        )
    )


def test_a_refused_bind_gives_the_room_back_and_is_tried_again():
    tries = 0

    def second_time_lucky(_: object) -> bool:
        nonlocal tries
        tries += 1
        return tries > 2

    simulation = cluster(node("n1", cpu="2"), gang("a", 2), may_bind=second_time_lucky)
    assert bound(simulation) == {}
    assert code(simulation, "a") is Code.BACKOFF
    assert "the rule of the simulation refuses it" in message(simulation, "a")

    simulation.advance(1)
    assert len(bound(simulation)) == 2
    assert core_of(simulation).cluster.nodes.used[0, 0] == 2000


def test_room_that_was_promised_is_not_promised_again(monkeypatch: pytest.MonkeyPatch):
    said: list[Any] = []
    monkeypatch.setattr(Hosted, "perform", lambda _, out: said.extend(out))
    simulation = cluster(node("n1", cpu="2"), gang("a", 2))
    add(simulation, gang("b", 1))
    said += simulation.core.handle(WokeUp(), now=simulation.now)

    binds = [intent for intent in said if isinstance(intent, BindGang)]
    assert [intent.name for intent in binds] == ["a"]


def test_a_refusal_of_all_gives_the_room_back(monkeypatch: pytest.MonkeyPatch):
    said: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(Hosted, "perform", lambda _, out: said.extend(out))
        simulation = cluster(node("n1", cpu="2"), gang("a", 2))
    core = core_of(simulation)
    (bind,) = [intent for intent in said if isinstance(intent, BindGang)]
    assert core.cluster.nodes.used[0, 0] == 2000
    simulation.perform(core.handle(refused(bind), now=simulation.now))
    assert core.cluster.nodes.used[0, 0] == 0

    simulation.advance(1)
    assert len(bound(simulation)) == 2


def test_a_status_is_asked_for_once_and_again_only_when_it_was_not_written(
    monkeypatch: pytest.MonkeyPatch,
):
    said: list[Any] = []
    monkeypatch.setattr(Hosted, "perform", lambda _, out: said.extend(out))
    simulation = cluster(node("n1", cpu="2"), pod_group("a", min_member=1))
    core = core_of(simulation)
    said += core.handle(WokeUp(), now=simulation.now)
    (patch,) = [intent for intent in said if isinstance(intent, PatchObject)]
    said.clear()
    core.handle(refused(patch), now=simulation.now + 20)
    said += core.handle(WokeUp(), now=simulation.now + 22)

    (again,) = [intent for intent in said if isinstance(intent, PatchObject)]
    assert (again.name, again.uid) == (patch.name, patch.uid)
    assert again.id != patch.id


def test_a_gang_bound_in_part_is_completed_before_anything_else():
    refused = {"a-main-1"}
    simulation = cluster(
        node("n1", cpu="2"),
        priority_class("high", 10),
        gang("a", 2),
        may_bind=lambda bind: bind.name not in refused,
    )
    assert list(bound(simulation)) == ["a-main-0"]
    add(simulation, gang("b", 1, group={"priority_class_name": "high"}))
    assert code(simulation, "a") is Code.BACKOFF
    refused.clear()
    simulation.advance(2)

    assert list(bound(simulation)) == ["a-main-0", "a-main-1"]
    assert group(simulation, "a").status.phase == "Running"


def test_a_gang_that_stays_in_part_is_evicted_whole():
    simulation = cluster(
        node("n1", cpu="4"), gang("a", 3), may_bind=lambda bind: bind.name != "a-main-2"
    )
    simulation.advance(29)
    assert len(bound(simulation)) == 2
    simulation.advance(16)

    evicted = [intent.name for intent in simulation.intents if isinstance(intent, EvictPod)]
    assert evicted == ["a-main-0", "a-main-1"]
    assert [record.what for record in simulation.history].count("gang.evicted") == 1
    assert core_of(simulation).cluster.nodes.used[0, 0] == 0


def test_nobody_looks_at_jobs_that_nothing_could_have_helped(monkeypatch: pytest.MonkeyPatch):
    simulation = cluster(node("n1", cpu="4"), *(gang(f"big{n}", 9) for n in range(20)))
    core = core_of(simulation)
    looked_at: list[Any] = []
    original = core._conclude

    def noting(key: Any, *rest: Any) -> Any:
        looked_at.append(key[1])
        return original(key, *rest)

    monkeypatch.setattr(core, "_conclude", noting)
    add(simulation, gang("small", 1))
    change(simulation, "small-main-0", phase="Succeeded")

    assert set(looked_at) == {"small"}
    simulation.safety_pass()
    assert len(set(looked_at)) == 21
