"""Pods that care who stands where: ports, affinity between pods, spreading."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.core import (
    Affinity,
    Namespace,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from stromboli.api.meta import KubeObject, ObjectMeta
from stromboli.api.selectors import LabelSelector
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Unblock
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def zoned(*zones: str, cpu: str = "4") -> list[KubeObject]:
    return [
        node(f"n{number}", labels={ZONE: zone, HOST: f"n{number}"}, cpu=cpu)
        for number, zone in enumerate(zones)
    ]


def cluster(*objects: KubeObject | list[Any]) -> Simulation:
    simulation = Simulation(SchedulerCore())
    simulation.put(queue())
    add(simulation, *objects)
    return simulation


def add(simulation: Simulation, *objects: KubeObject | list[Any]) -> None:
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            simulation.put(one)
    simulation.run()


def bound(simulation: Simulation) -> dict[str, str]:
    return {name: on for (_, name), on in simulation.binds.items()}


def message(simulation: Simulation, name: str) -> str:
    conditions = simulation.get("vcpodgroup", "test", name).status.conditions
    return next((c.message for c in conditions if c.type == "Unschedulable"), "")


def term(app: str, topology: str = HOST, **more: Any) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": app}), topology_key=topology, **more
    )


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(
        pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=terms)
    )


def apart(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(
        pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=terms)
    )


def spread(app: str, *, hard: bool = True, skew: int = 1, topology: str = ZONE, **more: Any):
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=topology,
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
        label_selector=LabelSelector(match_labels={"app": app}),
        **more,
    )


# Ports.


def test_two_pods_with_the_same_host_port_are_not_put_on_one_node():
    simulation = cluster(zoned("a", "a"), gang("web", 2, host_port=80))

    assert sorted(bound(simulation).values()) == ["n0", "n1"]


def test_a_gang_with_more_pods_than_nodes_have_the_port_free_waits_whole_and_says_why():
    simulation = cluster(zoned("a", "a"), gang("web", 3, host_port=80))

    assert bound(simulation) == {}
    assert "didn't have free ports for the requested pod ports" in message(simulation, "web")


def test_a_port_that_comes_free_wakes_the_job_that_waited_for_it():
    simulation = cluster(
        zoned("a"),
        pod("other", on="n0", phase="Running", host_port=80),
        gang("web", 1, host_port=80),
    )
    assert bound(simulation) == {}

    simulation.delete("pod", "test", "other")
    simulation.run()

    assert bound(simulation) == {"web-main-0": "n0"}


# Affinity.


def test_a_pod_goes_near_the_one_it_asks_for():
    simulation = cluster(
        zoned("a", "b", "b"),
        pod("db", on="n2", phase="Running", labels={"app": "db"}),
        gang("web", 2, affinity=near(term("db", ZONE))),
    )

    assert set(bound(simulation).values()) <= {"n1", "n2"}


def test_a_gang_that_wants_to_be_together_starts_anywhere_and_stays_together():
    simulation = cluster(
        zoned("a", "a", "b", "b", cpu="2"),
        gang("ring", 4, labels={"app": "ring"}, affinity=near(term("ring", ZONE))),
    )

    zones = {{"n0": "a", "n1": "a", "n2": "b", "n3": "b"}[on] for on in bound(simulation).values()}
    assert len(bound(simulation)) == 4
    assert len(zones) == 1


def test_a_pod_whose_company_is_missing_waits_until_it_comes():
    simulation = cluster(zoned("a", "b"), gang("web", 1, affinity=near(term("db"))))
    assert bound(simulation) == {}
    assert "didn't match pod affinity rules" in message(simulation, "web")
    explanation = simulation.core.explanations[("test", "web")]  # type: ignore[attr-defined]
    assert explanation.unblock is Unblock.COMPANY

    add(simulation, pod("db", on="n1", phase="Running", labels={"app": "db"}))

    assert bound(simulation) == {"web-main-0": "n1"}


def test_pods_that_avoid_their_own_kind_stand_one_per_node():
    simulation = cluster(
        zoned("a", "b", "c"), gang("one", 3, labels={"app": "one"}, affinity=apart(term("one")))
    )

    assert sorted(bound(simulation).values()) == ["n0", "n1", "n2"]


def test_a_pod_keeps_away_from_one_that_does_not_want_it_near():
    simulation = cluster(
        zoned("a", "b"),
        pod("shy", on="n0", phase="Running", affinity=apart(term("loud", ZONE))),
        gang("loud", 2, labels={"app": "loud"}),
    )

    assert set(bound(simulation).values()) == {"n1"}


def test_those_placed_in_the_same_cycle_count_as_neighbours():
    shy = gang("a-shy", 1, affinity=apart(term("loud")))
    simulation = cluster(zoned("a", "b"), shy, gang("loud", 2, labels={"app": "loud"}))

    homes = bound(simulation)
    assert homes["a-shy-main-0"] not in {homes["loud-main-0"], homes["loud-main-1"]}


def test_a_term_without_namespaces_means_the_pods_own_and_a_selector_means_those_it_picks():
    team = Namespace(metadata=ObjectMeta(name="team", uid="ns", labels={"kind": "shared"}))
    db = pod("db", namespace="team", on="n1", phase="Running", labels={"app": "db"})
    own = cluster(zoned("a", "b"), team, db, gang("own", 1, affinity=near(term("db"))))
    picking = term("db", namespace_selector=LabelSelector(match_labels={"kind": "shared"}))
    theirs = cluster(zoned("a", "b"), team, db, gang("theirs", 1, affinity=near(picking)))

    assert bound(own) == {}
    assert bound(theirs) == {"theirs-main-0": "n1"}


def test_a_preference_for_company_decides_between_nodes_that_are_equal_otherwise():
    likes = Affinity(
        pod_affinity=PodAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                WeightedPodAffinityTerm(weight=10, pod_affinity_term=term("db")),
            )
        )
    )
    simulation = cluster(
        zoned("a", "b", "c"),
        pod("db", on="n1", phase="Running", cpu="", memory="", labels={"app": "db"}),
        gang("web", 1, affinity=likes),
    )

    assert bound(simulation) == {"web-main-0": "n1"}


def test_a_dislike_of_those_who_are_there_keeps_a_pod_away_if_it_can_be_helped():
    dislikes = Affinity(
        pod_anti_affinity=PodAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                WeightedPodAffinityTerm(weight=100, pod_affinity_term=term("web")),
            )
        )
    )
    simulation = cluster(
        zoned("a", "b"),
        pod("grumpy", on="n0", phase="Running", cpu="", memory="", affinity=dislikes),
        gang("web", 1, labels={"app": "web"}),
    )

    assert bound(simulation) == {"web-main-0": "n1"}


# Spreading.


def test_a_hard_spread_keeps_the_zones_even():
    simulation = cluster(
        zoned("a", "a", "b"),
        gang("web", 4, labels={"app": "web"}, topology_spread_constraints=(spread("web"),)),
    )

    zones = Counter({"n0": "a", "n1": "a", "n2": "b"}[on] for on in bound(simulation).values())
    assert zones == {"a": 2, "b": 2}


def test_a_hard_spread_that_cannot_be_even_keeps_the_gang_waiting():
    simulation = cluster(
        zoned("a", "b", cpu="2"),
        pod("big", on="n1", phase="Running", cpu="2"),
        gang("web", 2, labels={"app": "web"}, topology_spread_constraints=(spread("web"),)),
    )

    assert bound(simulation) == {}
    assert "topology spread constraints" in message(simulation, "web")


def test_a_node_without_the_label_is_out_of_the_question_for_a_hard_spread():
    simulation = cluster(
        node("plain"),
        gang("web", 1, labels={"app": "web"}, topology_spread_constraints=(spread("web"),)),
    )

    assert "missing required label" in message(simulation, "web")


def test_too_few_domains_count_as_an_empty_one():
    constraint = spread("web", min_domains=3)
    simulation = cluster(
        zoned("a", "b"),
        gang("web", 3, labels={"app": "web"}, topology_spread_constraints=(constraint,)),
    )

    assert bound(simulation) == {}


def test_a_soft_spread_prefers_the_emptier_zone_but_takes_what_there_is():
    constraint = spread("web", hard=False)
    simulation = cluster(
        zoned("a", "b", cpu="3"),
        pod("w", on="n0", phase="Running", cpu="", memory="", labels={"app": "web"}),
        gang("web", 4, labels={"app": "web"}, topology_spread_constraints=(constraint,)),
    )

    assert len(bound(simulation)) == 4
    assert bound(simulation)["web-main-0"] == "n1"


def test_pods_that_are_ending_do_not_count_for_a_spread():
    simulation = cluster(
        zoned("a", "b"),
        pod("old", on="n0", phase="Running", ending=True, labels={"app": "web"}),
        pod("new", on="n1", phase="Running", labels={"app": "web"}),
        gang("web", 1, labels={"app": "web"}, topology_spread_constraints=(spread("web"),)),
    )

    assert bound(simulation) == {"web-main-0": "n0"}


# Everything at once, in any order.

choices = st.sampled_from(["plain", "ports", "apart", "near", "spread"])


@pytest.mark.parametrize("reverse", [False, True])
@given(st.lists(st.tuples(choices, st.integers(1, 4)), min_size=1, max_size=6))
@settings(max_examples=examples(35), deadline=None)
def test_whatever_is_asked_for_holds_for_what_was_bound(reverse: bool, jobs: list[Any]):
    nodes = zoned("a", "a", "b", "c", cpu="3")
    wishes: dict[str, dict[str, Any]] = {
        "plain": {},
        "ports": {"host_port": 80},
        "apart": {"affinity": apart(term("apart", HOST))},
        "near": {"affinity": near(term("near", ZONE))},
        "spread": {"topology_spread_constraints": (spread("spread", topology=HOST),)},
    }
    objects: list[Any] = []
    for number, (wish, size) in enumerate(jobs):
        objects.append(gang(f"job{number}", size, labels={"app": wish}, **wishes[wish]))
    simulation = cluster(nodes, *(reversed(objects) if reverse else objects))

    by_wish: dict[str, list[str]] = {}
    for name, on in bound(simulation).items():
        by_wish.setdefault(jobs[int(name.split("-")[0][3:])][0], []).append(on)
    assert all(number == 1 for number in Counter(by_wish.get("ports", [])).values())
    assert all(number == 1 for number in Counter(by_wish.get("apart", [])).values())
    zone_of = {"n0": "a", "n1": "a", "n2": "b", "n3": "c"}
    assert len({zone_of[on] for on in by_wish.get("near", [])}) <= 1
    stand = Counter(by_wish.get("spread", []))
    assert max(stand.values(), default=0) - min(stand[f"n{i}"] for i in range(4)) <= 1
    started = Counter(name.split("-")[0] for name in bound(simulation))
    assert all(started[f"job{i}"] in {0, size} for i, (_, size) in enumerate(jobs))


def test_a_cluster_in_which_nobody_cares_keeps_no_book_of_neighbours():
    simulation = cluster(zoned("a", "b"), gang("web", 2), pod_group("empty", min_member=1))

    assert not simulation.core.cluster.neighbourhood.is_active  # type: ignore[attr-defined]
