"""What the core makes of binds and evictions of which nobody knows the end."""

from typing import Any

import pytest

from stromboli.contracts.intents import BindGang, EvictPod, PatchObject
from stromboli.contracts.outcomes import (
    AnyOutcome,
    AssumedPod,
    GangBound,
    PodBound,
    Reason,
    Refused,
    Uncertain,
)
from stromboli.contracts.stimuli import OutcomeHeard, Ready, WakeAt, WokeUp
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.simulating.hosting import Hosted
from stromboli.testkit.scheduling_objects import (
    PLAIN,
    gang,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
)
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import add, cluster

PREEMPT = read_conf("""
actions: enqueue, allocate, backfill, preempt
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
""")


class Deaf:
    """A cluster in which nothing is done, and the test gives the answers."""

    def __init__(self, *objects: Any, conf: Any = PLAIN) -> None:
        self.said: list[Any] = []
        self.now = 0.0
        self.simulation: Simulation
        self._objects = objects
        self._conf = conf

    def begin(self, monkeypatch: pytest.MonkeyPatch) -> "Deaf":
        monkeypatch.setattr(Hosted, "perform", lambda _, out: self.said.extend(out))
        self.simulation = cluster(*self._objects, conf=self._conf)
        self.core: SchedulerCore = self.simulation.core
        self.now = self.simulation.now
        self.wake()
        return self

    def take(self, what: type[Any]) -> list[Any]:
        """What was asked of this sort since the last time."""
        found = [one for one in self.said if isinstance(one, what)]
        self.said = [one for one in self.said if not isinstance(one, what)]
        return found

    def answer(self, outcome: AnyOutcome) -> None:
        self.said += self.core.handle(OutcomeHeard(outcome), now=self.now)

    def wake(self, after_s: float = 0.0) -> None:
        self.now = self.simulation.now = self.now + after_s
        self.said += self.core.handle(WokeUp(), now=self.now)

    def put(self, *objects: Any) -> None:
        add(self.simulation, *objects)
        self.wake()

    @property
    def used_cpu(self) -> int:
        return int(self.core.cluster.nodes.used[0, 0])


def about(intent: Any) -> dict[str, Any]:
    return {
        "intent_id": intent.id,
        "service": "scheduler",
        "verb": intent.verb,
        "kind": intent.kind,
        "key": intent.key,
        "namespace": intent.namespace,
        "name": intent.name,
    }


def answered(bind: BindGang, **how: Any) -> GangBound:
    """All of its pods have ended like that."""
    ended: dict[str, Any] = {"bound": False, **how}
    pods = tuple(PodBound(name=one.name, uid=one.uid, node=one.node, **ended) for one in bind.binds)
    return GangBound(
        **about(bind), attempt=bind.attempt, part=bind.part, parts=bind.parts, pods=pods
    )


def refused(intent: Any, reason: Reason) -> Refused:
    return Refused(**about(intent), reason=reason, message="no")


def names(binds: list[BindGang]) -> list[tuple[str, str]]:
    return [(one.name, one.node) for bind in binds for one in bind.binds]


@pytest.fixture
def doubtful(monkeypatch: pytest.MonkeyPatch) -> Deaf:
    """A gang of two of which nobody knows whether it is bound."""
    deaf = Deaf(node("n1", cpu="2"), gang("a", 2)).begin(monkeypatch)
    (bind,) = deaf.take(BindGang)
    deaf.answer(answered(bind, uncertain=True))
    return deaf


def test_what_may_be_bound_keeps_its_room(doubtful: Deaf):
    doubtful.put(gang("b", 1))

    assert doubtful.used_cpu == 2000
    assert doubtful.take(BindGang) == []


def test_the_same_pod_is_asked_for_the_same_node_again_and_ever_later(doubtful: Deaf):
    alarms = [said.at for said in doubtful.take(WakeAt)]
    assert doubtful.now + 1.0 in alarms
    ids: set[str] = set()
    for pause_s in (1, 2, 4, 8, 16, 30, 30):
        doubtful.wake(pause_s - 0.01)
        assert doubtful.take(BindGang) == []
        doubtful.wake(0.01)
        again = doubtful.take(BindGang)

        assert names(again) == [("a-main-0", "n1"), ("a-main-1", "n1")]
        assert all((bind.part, bind.parts) == (0, 1) for bind in again)
        assert not ids & {bind.id for bind in again}
        assert len({bind.attempt for bind in again}) == 2
        ids |= {bind.id for bind in again}
        for bind in again:
            doubtful.answer(answered(bind, uncertain=True))


def test_while_a_repetition_is_not_answered_there_is_no_other(doubtful: Deaf):
    doubtful.wake(1)
    assert len(doubtful.take(BindGang)) == 2
    doubtful.wake(600)

    assert doubtful.take(BindGang) == []


def test_a_repetition_that_is_bound_ends_the_doubt(doubtful: Deaf):
    doubtful.wake(1)
    for bind in doubtful.take(BindGang):
        doubtful.answer(answered(bind, bound=True, already=True))
    doubtful.wake(100)

    assert doubtful.take(BindGang) == []
    assert doubtful.used_cpu == 2000


def test_only_an_answer_about_the_pod_itself_gives_its_room_back(doubtful: Deaf):
    """That a repetition was not done in time says nothing about what was asked before it."""
    doubtful.wake(1)
    first, second = doubtful.take(BindGang)
    doubtful.answer(refused(first, Reason.EXPIRED))
    doubtful.answer(answered(second, reason=Reason.FORBIDDEN, message="a webhook"))
    assert doubtful.used_cpu == 2000

    doubtful.wake(2)
    first, second = doubtful.take(BindGang)
    doubtful.answer(refused(first, Reason.NOT_FOUND))
    doubtful.answer(answered(second, reason=Reason.STALE, message="it is another one"))
    assert doubtful.used_cpu == 0


def test_a_fact_ends_the_doubt(doubtful: Deaf):
    doubtful.put(pod("a-main-0", group="a", on="n1", phase="Running"))
    doubtful.simulation.delete("pod", "test", "a-main-1")
    doubtful.simulation.run()
    doubtful.wake(5)

    assert doubtful.take(BindGang) == []
    assert doubtful.used_cpu == 1000


def test_a_part_of_which_nothing_is_known_at_all_keeps_its_room(monkeypatch: pytest.MonkeyPatch):
    deaf = Deaf(node("n1", cpu="2"), gang("a", 2)).begin(monkeypatch)
    (bind,) = deaf.take(BindGang)
    deaf.answer(Uncertain(**about(bind), message="nobody knows"))
    assert deaf.used_cpu == 2000

    deaf.wake(1)
    assert names(deaf.take(BindGang)) == [("a-main-0", "n1"), ("a-main-1", "n1")]


def test_a_gang_half_bound_for_too_long_is_evicted_with_the_pods_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
):
    deaf = Deaf(node("n1", cpu="2"), gang("a", 2)).begin(monkeypatch)
    (bind,) = deaf.take(BindGang)
    one, other = (PodBound(name=p.name, uid=p.uid, node=p.node, bound=True) for p in bind.binds)
    doubt = PodBound(name=other.name, uid=other.uid, node="n1", bound=False, uncertain=True)
    about_it: dict[str, Any] = {"attempt": bind.attempt, "part": 0, "parts": 1}
    deaf.answer(GangBound(**about(bind), **about_it, pods=(one, doubt)))
    deaf.put(pod_group("a", min_member=2, phase="Inqueue"), pod("a-main-0", group="a", on="n1"))
    deaf.wake(1)
    (again,) = deaf.take(BindGang)
    deaf.answer(answered(again, uncertain=True))
    assert deaf.take(EvictPod) == []
    deaf.wake(60)

    assert sorted(evict.name for evict in deaf.take(EvictPod)) == ["a-main-0", "a-main-1"]
    deaf.wake(60)
    assert deaf.take(BindGang) == [], "who is told to go is not bound"
    assert deaf.used_cpu == 2000, "until it is gone it may be bound"


def test_a_pod_that_may_have_been_evicted_is_asked_to_go_again(monkeypatch: pytest.MonkeyPatch):
    victim = gang("a", 2, min_member=1, on="n1", phase="Running", group={"phase": "Running"})
    high = gang("b", 1, group={"priority_class_name": "high"})
    deaf = Deaf(node("n1", cpu="2"), priority_class("high", 10), victim, high, conf=PREEMPT).begin(
        monkeypatch
    )
    (evict,) = deaf.take(EvictPod)
    deaf.answer(Uncertain(**about(evict), message="nobody knows"))
    deaf.wake(9)
    assert deaf.take(EvictPod) == [], "it counts as told to go"
    deaf.wake(1)

    (again,) = deaf.take(EvictPod)
    assert (again.uid, again.name) == (evict.uid, evict.name)
    assert again.id != evict.id


def test_a_status_that_may_have_been_written_is_written_again(monkeypatch: pytest.MonkeyPatch):
    deaf = Deaf(node("n1", cpu="2"), gang("a", 3)).begin(monkeypatch)
    (patch,) = [one for one in deaf.take(PatchObject) if one.kind == "vcpodgroup"]
    deaf.answer(Uncertain(**about(patch), message="nobody knows"))
    deaf.wake(2)

    (again,) = [one for one in deaf.take(PatchObject) if one.kind == "vcpodgroup"]
    assert again.id != patch.id


# What predecessors have done.


def begun(*objects: Any, assumed: tuple[AssumedPod, ...]) -> tuple[SchedulerCore, list[Any]]:
    """A core whose turn begins with these facts, and what it asks for."""
    store = Simulation(SchedulerCore(PLAIN))._store
    for item in (queue(), *objects):
        for one in item if isinstance(item, list) else [item]:
            store.put(one)
    core = SchedulerCore(PLAIN)
    core.handle_all(list(store.everything()), now=store.now)
    return core, core.handle(Ready(assumed), now=store.now)


def assumed_pod(name: str, *, uid: str = "") -> AssumedPod:
    return AssumedPod("test", name, uid or f"pod-test-{name}", "n1")


def binds(said: list[Any]) -> list[BindGang]:
    return [one for one in said if isinstance(one, BindGang)]


def test_what_a_predecessor_may_have_bound_takes_its_room_and_is_asked_for_again():
    core, said = begun(
        node("n1", cpu="1"), gang("a", 1), gang("b", 1), assumed=(assumed_pod("a-main-0"),)
    )
    assert core.cluster.nodes.used[0, 0] == 1000
    assert binds(said) == []

    assert names(binds(core.handle(WokeUp(), now=2e9))) == [("a-main-0", "n1")]


def test_what_the_facts_show_is_not_assumed():
    core, said = begun(
        node("n1", cpu="4"),
        gang("a", 1, on="n1", phase="Running"),
        gang("b", 1),
        assumed=(
            assumed_pod("a-main-0"),
            assumed_pod("b-main-0", uid="uid-of-its-predecessor"),
            assumed_pod("is-gone"),
        ),
    )

    assert names(binds(said)) == [("b-main-0", "n1")]
    assert core.cluster.nodes.used[0, 0] == 2000
    assert binds(core.handle(WokeUp(), now=2e9)) == []
