"""The scorers of nodeorder one by one, in the numbers that kube-scheduler's formulas give."""

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from stromboli.api.core import (
    Affinity,
    Container,
    ContainerImage,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from stromboli.api.meta import KubeObject
from stromboli.api.selectors import LabelSelector, Requirement
from stromboli.scheduling.pods import Task, read_task
from stromboli.scheduling.trial import Placement
from stromboli.testkit.plugin_scores import contender_of, scores, scoring_session
from stromboli.testkit.scheduling_objects import node, pod

GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
MIB = 2**20
WEIGHTS = (
    "leastrequested",
    "mostrequested",
    "balancedresource",
    "nodeaffinity",
    "podaffinity",
    "tainttoleration",
    "imagelocality",
    "podtopologyspread",
)


def only(scorer: str, weight: int = 1) -> dict[str, int]:
    assert scorer in WEIGHTS
    return {f"{name}.weight": weight if name == scorer else 0 for name in WEIGHTS}


def worth(scorer: str, asking: Pod, *objects: KubeObject, weight: int = 1) -> dict[str, float]:
    session = scoring_session("nodeorder", *objects, asking, arguments=only(scorer, weight))
    return scores(session, asking)


def running(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on=on, phase="Running", **more)


# What is left.


def test_least_allocated_is_the_mean_of_what_would_be_free():
    found = worth(
        "leastrequested",
        pod("p", cpu="1", memory="2Gi"),
        node("n0", cpu="4", memory="8Gi"),
        node("n1", cpu="4", memory="8Gi"),
        running("r", "n1", cpu="2", memory="2Gi"),
    )

    assert found == {"n0": 75.0, "n1": (25 + 50) / 2}


def test_most_allocated_is_the_mean_of_what_would_be_used():
    found = worth(
        "mostrequested",
        pod("p", cpu="1", memory="2Gi"),
        node("n0", cpu="4", memory="8Gi"),
        node("n1", cpu="4", memory="8Gi"),
        running("r", "n1", cpu="2", memory="2Gi"),
        weight=3,
    )

    assert found == {"n0": 75.0, "n1": 3 * (75 + 50) / 2}


def test_a_pod_that_asks_for_nothing_is_taken_to_use_a_little():
    found = worth(
        "leastrequested",
        pod("p", cpu="", memory=""),
        node("n0", cpu="1", memory="1000Mi"),
        node("n1", cpu="2", memory="2000Mi"),
    )

    assert found == {"n0": (90 + 80) / 2, "n1": (95 + 90) / 2}


def test_so_is_one_that_stands_there_already():
    found = worth(
        "leastrequested",
        pod("p", cpu="500m", memory="500Mi"),
        node("n0", cpu="1", memory="1000Mi"),
        node("n1", cpu="1", memory="1000Mi"),
        running("asks-for-nothing", "n0", cpu="", memory=""),
        running("asks-for-cpu", "n0", cpu="200m", memory=""),
    )

    assert found == {"n0": (20 + 10) / 2, "n1": 50.0}


def test_what_it_lacks_of_one_resource_is_assumed_of_that_one_only():
    found = worth(
        "leastrequested", pod("p", cpu="500m", memory=""), node("n0", cpu="1", memory="1000Mi")
    )

    assert found == {"n0": (50 + 80) / 2}


def test_pods_that_ask_for_nothing_are_counted_as_the_cycle_places_them_and_takes_them_back():
    session = scoring_session(
        "nodeorder",
        node("n0", cpu="1", memory="1000Mi"),
        node("n1", cpu="1", memory="1000Mi"),
        arguments=only("leastrequested"),
    )
    asking = pod("p", cpu="", memory="")
    before = scores(session, asking)
    trial, outlook = session.trial, next(iter(session.choosing._outlooks.values()))
    tasks = tuple(tasks_like(asking, 3))
    slots = outlook.choose(3, pipelined=False)
    placement = Placement(
        contender_of(("test", "job")), outlook.kind, outlook.vector, tasks, slots, pipelined=False
    )

    assert slots.tolist() == [0, 1, 0]
    trial.apply(placement)
    assert scores(session, asking) == {"n0": (70 + 40) / 2, "n1": (80 + 60) / 2}
    trial.rollback(0)
    assert scores(session, asking) == before == {"n0": 85.0, "n1": 85.0}


def tasks_like(asking: Pod, count: int) -> list[Task]:
    return [
        read_task(replace(asking, metadata=replace(asking.metadata, uid=f"u{n}")), frozenset())
        for n in range(count)
    ]


def test_a_resource_that_a_node_has_not_is_left_out():
    found = worth("leastrequested", pod("p", cpu="1", memory=""), node("n0", cpu="4", memory="0"))

    assert found == {"n0": 75.0}


def test_balance_is_one_less_the_deviation_of_what_is_really_asked_for():
    found = worth(
        "balancedresource",
        pod("p", cpu="1", memory="1Gi"),
        node("n0", cpu="4", memory="4Gi"),
        node("n1", cpu="4", memory="4Gi"),
        node("n2", cpu="4", memory="4Gi"),
        running("r", "n1", cpu="2", memory=""),
        running("s", "n2", cpu="", memory=""),
    )

    assert found == {"n0": 100.0, "n1": 75.0, "n2": 100.0}


def with_gpus(asking: Pod, gpus: int) -> Pod:
    (main,) = asking.spec.containers
    asked = {**main.resources.requests, GPU: str(gpus)}
    main = replace(main, resources=replace(main.resources, requests=asked))
    return replace(asking, spec=replace(asking.spec, containers=(main,)))


def test_gpus_count_in_the_balance_of_pods_that_ask_for_them():
    nodes = node("n0", cpu="4", memory="4Gi", nvidia_com__gpu="4")
    shares = (0.25, 0.25, 0.5)
    mean = sum(shares) / 3
    std = math.sqrt(sum((share - mean) ** 2 for share in shares) / 3)

    assert worth("balancedresource", pod("p", cpu="1", memory="1Gi"), nodes) == {"n0": 100.0}
    asking = with_gpus(pod("p", cpu="1", memory="1Gi"), 2)
    assert worth("balancedresource", asking, nodes)["n0"] == pytest.approx(100 * (1 - std))


def test_a_pod_that_asks_for_gpus_only_is_balanced_too_and_one_that_asks_for_nothing_is_not():
    nodes = node("n0", cpu="4", memory="4Gi", nvidia_com__gpu="4")
    std = math.sqrt((2 * (0.5 / 3) ** 2 + (0.5 - 0.5 / 3) ** 2) / 3)

    found = worth("balancedresource", with_gpus(pod("p", cpu="", memory=""), 2), nodes)
    assert found["n0"] == pytest.approx(100 * (1 - std), abs=1e-6)
    assert worth("balancedresource", pod("p", cpu="", memory=""), nodes) == {"n0": 0.0}


# What is liked.


def likes(**weights: int) -> Affinity:
    return Affinity(
        node_affinity=NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=tuple(
                PreferredSchedulingTerm(
                    weight=weight,
                    preference=NodeSelectorTerm(
                        match_expressions=(Requirement(key=key, operator="Exists"),)
                    ),
                )
                for key, weight in weights.items()
            )
        )
    )


def test_preferred_nodes_have_the_sum_of_their_weights_the_best_is_a_hundred():
    found = worth(
        "nodeaffinity",
        pod("p", affinity=likes(fast=6, near=2)),
        node("n0", labels={"fast": "1", "near": "1"}),
        node("n1", labels={"near": "1"}),
        node("n2"),
        weight=2,
    )

    assert found == {"n0": 200.0, "n1": 50.0, "n2": 0.0}


def test_nodes_with_fewer_taints_that_say_rather_not_are_better():
    def taints(*keys: str) -> tuple[Taint, ...]:
        return tuple(Taint(key=key, effect="PreferNoSchedule") for key in keys)

    asking = pod(
        "p",
        tolerations=(
            Toleration(key="b", operator="Exists", effect="NoSchedule"),
            Toleration(key="c", operator="Exists"),
        ),
    )
    found = worth(
        "tainttoleration",
        asking,
        node("n0", taints=taints("a", "b")),
        node("n1", taints=taints("b", "c")),
        node("n2", taints=(Taint(key="c", effect="PreferNoSchedule"),)),
    )

    assert found == {"n0": 0.0, "n1": 50.0, "n2": 100.0}


def holding(holder: Node, **images: int) -> Node:
    held = tuple(ContainerImage(names=(name,), size_bytes=size) for name, size in images.items())
    return replace(holder, status=replace(holder.status, images=held))


def using(*images: str, starting: tuple[str, ...] = ()) -> Pod:
    made = pod("p")
    (main,) = made.spec.containers
    containers = tuple(replace(main, name=f"c{n}", image=image) for n, image in enumerate(images))
    init = tuple(Container(name=f"i{n}", image=image) for n, image in enumerate(starting))
    return replace(made, spec=replace(made.spec, containers=containers, init_containers=init))


def images_on(*held: dict[str, int]) -> list[Node]:
    return [holding(node(f"n{number}"), **images) for number, images in enumerate(held)]


def test_an_image_counts_between_23_and_1000_mebibytes_and_by_how_many_nodes_have_it():
    big = {"repo/big:latest": 800 * MIB}
    small = {"repo/big:latest": 40 * MIB}
    found = worth("imagelocality", using("repo/big"), *images_on(big, {}))
    assert found == {"n0": pytest.approx(100 * (400 - 23) / (1000 - 23), abs=1e-5), "n1": 0.0}

    assert worth("imagelocality", using("repo/big"), *images_on(small, {})) == {
        "n0": 0.0,
        "n1": 0.0,
    }


def test_the_upper_limit_grows_with_the_number_of_containers():
    held = {"a:1": 2000 * MIB, "b:1": 0}
    found = worth("imagelocality", using("a:1", "b:1"), *images_on(held))

    assert found == {"n0": 100.0}
    found = worth("imagelocality", using("a:1", "b:1"), *images_on({"a:1": 1000 * MIB}))
    assert found == {"n0": pytest.approx(100 * (1000 - 23) / (2000 - 23), abs=1e-5)}


def test_images_of_init_containers_and_images_by_digest_count_too():
    digest = "repo/app@sha256:abc"
    held = {digest: 1000 * MIB, "tool:1": 1000 * MIB}
    found = worth("imagelocality", using(digest, starting=("tool:1",)), *images_on(held))

    assert found == {"n0": 100.0}


# Who is near.


def term(app: str, topology: str = ZONE) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=topology, label_selector=LabelSelector(match_labels={"app": app})
    )


def zoned() -> list[KubeObject]:
    return [
        node("n0", labels={ZONE: "a", HOST: "n0"}),
        node("n1", labels={ZONE: "a", HOST: "n1"}),
        node("n2", labels={ZONE: "b", HOST: "n2"}),
        node("n3", labels={HOST: "n3"}),
    ]


def near(app: str, weight: int) -> WeightedPodAffinityTerm:
    return WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term(app))


def test_preferred_neighbours_are_summed_and_stretched_from_0_to_100():
    asking = pod(
        "p",
        affinity=Affinity(
            pod_affinity=PodAffinity(
                preferred_during_scheduling_ignored_during_execution=(near("db", 10),)
            ),
            pod_anti_affinity=PodAffinity(
                preferred_during_scheduling_ignored_during_execution=(near("noisy", 5),)
            ),
        ),
    )
    found = worth(
        "podaffinity",
        asking,
        *zoned(),
        running("db", "n0", labels={"app": "db"}),
        running("noisy", "n2", labels={"app": "noisy"}),
    )

    assert found == pytest.approx(
        {"n0": 100.0, "n1": 100.0, "n2": 0.0, "n3": 100 * 5 / 15}, abs=1e-5
    )


def test_those_who_insist_on_the_pod_near_them_like_it_there_with_a_weight_of_one():
    wants = Affinity(
        pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term("web"),))
    )
    likes_it = Affinity(
        pod_affinity=PodAffinity(
            preferred_during_scheduling_ignored_during_execution=(near("web", 4),)
        )
    )
    found = worth(
        "podaffinity",
        pod("p", labels={"app": "web"}),
        *zoned(),
        running("insists", "n0", affinity=wants, labels={"app": "web"}),
        running("likes", "n2", affinity=likes_it),
    )

    assert found == {"n0": 25.0, "n1": 25.0, "n2": 100.0, "n3": 0.0}


def evenly(topology: str, max_skew: int = 1) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=topology,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )


def test_fewer_pods_of_a_constraint_in_a_domain_are_better_and_nodes_without_the_label_worthless():
    asking = pod("p", labels={"app": "web"}, topology_spread_constraints=(evenly(ZONE),))
    found = worth(
        "podtopologyspread",
        asking,
        *zoned(),
        running("w0", "n0", labels={"app": "web"}),
        running("w1", "n1", labels={"app": "web"}),
        running("w2", "n2", labels={"app": "web"}),
    )

    assert found == {"n0": 50.0, "n1": 50.0, "n2": 100.0, "n3": 0.0}


def test_pods_on_nodes_that_have_no_room_count_in_their_domain():
    """The score is asked for the nodes that are left: here n0 is full."""
    asking = pod("p", labels={"app": "web"}, topology_spread_constraints=(evenly(ZONE),))
    session = scoring_session(
        "nodeorder",
        *zoned(),
        running("w0", "n0", labels={"app": "web"}, cpu="2"),
        running("w1", "n0", labels={"app": "web"}, cpu="2"),
        running("w2", "n2", labels={"app": "web"}),
        asking,
        arguments=only("podtopologyspread"),
    )
    (plugin,) = session.panel.company_scores
    (task,) = tasks_like(asking, 1)
    room = np.array([False, True, True, True])
    found = plugin.sociability(task, session.choosing.neighbours, room)

    assert found is not None
    assert found.tolist()[1:3] == pytest.approx([50.0, 100.0])


def test_domains_of_several_constraints_weigh_by_how_many_there_are():
    asking = pod(
        "p", labels={"app": "web"}, topology_spread_constraints=(evenly(ZONE, 5), evenly(HOST, 3))
    )
    found = worth(
        "podtopologyspread",
        asking,
        *zoned(),
        running("w0", "n0", labels={"app": "web"}),
    )
    zones, hosts = math.log(2 + 2), math.log(3 + 2)
    raw = {"n0": zones + 4 + hosts + 2, "n1": zones + 4 + 2, "n2": 4 + 2}
    most, least = raw["n0"], raw["n2"]
    wanted = {name: 100 * (most + least - value) / most for name, value in raw.items()}

    assert found == pytest.approx({**wanted, "n3": 0.0}, abs=1e-5)
