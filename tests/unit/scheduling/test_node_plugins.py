"""Plugins that filter and score nodes, by where pods end up."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from stromboli.api.core import (
    Affinity,
    ContainerImage,
    NodeAffinity,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import Affinity as QueueAffinity
from stromboli.api.scheduling import NodeGroupAffinity
from stromboli.api.selectors import Requirement
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.loads import Loads, NodeLoad
from stromboli.scheduling.plugins.registry import build
from stromboli.testkit.scheduling_objects import gang, node, pod, queue
from stromboli.testkit.simulation import Simulation

GPU = "nvidia.com/gpu"


def cluster(
    plugin: str,
    *objects: KubeObject | list[KubeObject],
    arguments: dict[str, Any] | None = None,
    at: datetime | None = None,
    own_queue: KubeObject | None = None,
) -> Simulation:
    """Gangs, room, and the one plugin under test."""
    plugins = (PluginConf("gang"), PluginConf("predicates"), PluginConf(plugin, arguments or {}))
    conf = SchedulingConf(tiers=(plugins,))
    simulation = Simulation(SchedulerCore(conf))
    if at is not None:
        simulation.now = at.timestamp()
    simulation.put(own_queue or queue())
    for item in objects:
        for one in item if isinstance(item, list) else [item]:
            simulation.put(one)
    simulation.run()
    return simulation


def homes(simulation: Simulation) -> list[str]:
    return [on for _, on in sorted(simulation.binds.items())]


# binpack


def test_binpack_fills_a_node_before_it_begins_another():
    simulation = cluster("binpack", node("n0"), node("n1"), gang("job", 6))

    assert homes(simulation) == ["n0"] * 4 + ["n1"] * 2


def test_binpack_weighs_the_resources_it_is_told_to():
    busy = [
        pod("gpus", on="n0", phase="Running", cpu="1"),
        pod("cpus", on="n1", phase="Running", cpu="3"),
    ]
    nodes = [node("n0", nvidia_com__gpu="4"), node("n1", nvidia_com__gpu="8")]
    arguments = {"binpack.cpu": 0, "binpack.memory": 0, "binpack.resources": GPU}
    one_gpu: list[Any] = list(gang("job", 1, cpu="1"))
    asked = replace(
        one_gpu[1],
        spec=replace(
            one_gpu[1].spec,
            containers=(
                replace(
                    one_gpu[1].spec.containers[0],
                    resources=replace(
                        one_gpu[1].spec.containers[0].resources, requests={"cpu": "1", GPU: "2"}
                    ),
                ),
            ),
        ),
    )

    simulation = cluster("binpack", *nodes, *busy, one_gpu[0], asked, arguments=arguments)

    assert homes(simulation) == ["n0"]


def test_a_weight_for_a_resource_that_binpack_is_not_told_about_is_refused():
    with pytest.raises(BadConfiguration, match=r"binpack\.resources\.example\.com/foo"):
        build(PluginConf("binpack", {"binpack.resources.example.com/foo": 2}))


# nodeorder


def test_a_preferred_node_wins_over_an_emptier_one():
    likes = Affinity(
        node_affinity=NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                PreferredSchedulingTerm(
                    weight=1,
                    preference=NodeSelectorTerm(
                        match_expressions=(Requirement(key="disk", operator="In", values=("ssd",)),)
                    ),
                ),
            )
        )
    )
    simulation = cluster(
        "nodeorder",
        node("n0"),
        node("n1", labels={"disk": "ssd"}),
        pod("busy", on="n1", phase="Running", cpu="1"),
        gang("job", 1, affinity=likes),
    )

    assert homes(simulation) == ["n1"]


def test_a_node_that_would_rather_not_is_taken_last():
    rather_not = Taint(key="old", effect="PreferNoSchedule")
    simulation = cluster(
        "nodeorder",
        node("n0", taints=(rather_not,)),
        node("n1"),
        pod("busy", on="n1", phase="Running", cpu="2"),
        gang("job", 1),
    )

    assert homes(simulation) == ["n1"]


def test_who_tolerates_it_does_not_mind():
    rather_not = Taint(key="old", effect="PreferNoSchedule")
    simulation = cluster(
        "nodeorder",
        node("n0", taints=(rather_not,)),
        node("n1"),
        gang("job", 1, tolerations=(Toleration(key="old", operator="Exists"),)),
    )

    assert homes(simulation) == ["n0"]


def test_a_node_that_has_the_image_is_better():
    holder = node("n1")
    holder = replace(
        holder,
        status=replace(
            holder.status,
            images=(ContainerImage(names=("registry/big:latest",), size_bytes=900 * 2**20),),
        ),
    )
    job: list[Any] = list(gang("job", 1))
    task = job[1]
    task = replace(
        task,
        spec=replace(
            task.spec, containers=(replace(task.spec.containers[0], image="registry/big"),)
        ),
    )

    assert homes(cluster("nodeorder", node("n0"), holder, job[0], task)) == ["n1"]


def test_cpu_and_memory_are_kept_in_balance():
    simulation = cluster(
        "nodeorder",
        node("n0", cpu="10", memory="10Gi"),
        node("n1", cpu="10", memory="10Gi"),
        pod("cpus", on="n0", phase="Running", cpu="5", memory=""),
        pod("bytes", on="n1", phase="Running", cpu="", memory="5Gi"),
        gang("job", 1, cpu="4", memory="1Gi"),
        arguments={"leastrequested.weight": 0},
    )

    assert homes(simulation) == ["n1"]


# resource-strategy-fit


def test_one_resource_is_packed_while_another_is_spread():
    packed = {"resources": {"cpu": {"type": "MostAllocated", "weight": 1}}}
    spread = {"resources": {"cpu": {"type": "LeastAllocated", "weight": 1}}}
    objects = [node("n0"), node("n1"), pod("busy", on="n1", phase="Running"), *gang("job", 1)]

    assert homes(cluster("resource-strategy-fit", *objects, arguments=packed)) == ["n1"]
    assert homes(cluster("resource-strategy-fit", *objects, arguments=spread)) == ["n0"]


def test_nodes_with_scarce_resources_are_left_to_those_who_ask_for_them():
    arguments = {"sra": {"enable": True, "resources": GPU, "weight": 100}}
    simulation = cluster(
        "resource-strategy-fit",
        node("n0", nvidia_com__gpu="4"),
        node("n1"),
        pod("busy", on="n1", phase="Running", cpu="2"),
        gang("job", 1),
        arguments=arguments,
    )

    assert homes(simulation) == ["n1"]


# nodegroup


def group_queue(**sides: NodeGroupAffinity) -> KubeObject:
    plain = queue()
    return replace(plain, spec=replace(plain.spec, affinity=QueueAffinity(**sides)))


def grouped(**groups: str) -> list[KubeObject]:
    return [
        node(name, labels={"volcano.sh/nodegroup-name": group} if group else {})
        for name, group in groups.items()
    ]


def test_jobs_of_a_queue_stay_in_its_node_groups():
    required = NodeGroupAffinity(required_during_scheduling_ignored_during_execution=("blue",))
    simulation = cluster(
        "nodegroup",
        grouped(n0="red", n1="blue", n2=""),
        gang("job", 3),
        own_queue=group_queue(node_group_affinity=required),
    )

    assert homes(simulation) == ["n1"] * 3


def test_a_queue_that_names_no_group_has_the_ungrouped_nodes_only_if_not_strict():
    objects = [*grouped(n0="red", n1=""), *gang("job", 1)]

    assert homes(cluster("nodegroup", *objects)) == []
    assert homes(cluster("nodegroup", *objects, arguments={"strict": False})) == ["n1"]


def test_a_preferred_group_is_better_and_an_avoided_one_is_the_last_resort():
    sides = {
        "node_group_affinity": NodeGroupAffinity(
            required_during_scheduling_ignored_during_execution=("red", "green"),
            preferred_during_scheduling_ignored_during_execution=("green",),
        ),
        "node_group_anti_affinity": NodeGroupAffinity(
            preferred_during_scheduling_ignored_during_execution=("grey",)
        ),
    }
    simulation = cluster(
        "nodegroup",
        grouped(n0="grey", n1="red", n2="green"),
        gang("job", 9),
        own_queue=group_queue(**sides),
    )

    assert sorted(homes(simulation)) == ["n0"] + ["n1"] * 4 + ["n2"] * 4


# tdm

LENT = {"tdm.revocable-zone.z1": "10:00-12:00"}
NOON = datetime(2030, 1, 1, 11, 0, tzinfo=UTC)
NIGHT = datetime(2030, 1, 1, 3, 0, tzinfo=UTC)


def revocable(size: int) -> list[KubeObject]:
    group, *pods = gang("job", size)
    marked = {"volcano.sh/revocable-zone": "*"}
    return [
        group,
        *(
            replace(
                one,
                metadata=replace(one.metadata, annotations={**one.metadata.annotations, **marked}),
            )
            for one in pods
        ),
    ]


@pytest.mark.parametrize(
    ("at", "job", "where"),
    [
        (NOON, revocable(1), ["n1"]),
        (NIGHT, revocable(1), ["n0"]),
        (NOON, gang("job", 1), ["n0"]),
    ],
)
def test_a_lent_node_is_for_revocable_pods_within_its_hours(
    at: datetime, job: list[KubeObject], where: list[str]
):
    lent = node("n1", labels={"volcano.sh/revocable-zone": "z1"})

    assert homes(cluster("tdm", node("n0"), lent, job, arguments=LENT, at=at)) == where


@pytest.mark.parametrize("hours", ["10-12", "25:00-26:00", "", "10:00"])
def test_hours_that_are_none_are_refused(hours: str):
    with pytest.raises(BadConfiguration, match="hours such as"):
        build(PluginConf("tdm", {"tdm.revocable-zone.z1": hours}))


# usage


def measured(simulation: Simulation, age_s: float = 0.0, **loads: tuple[float, float]) -> None:
    assert isinstance(simulation.core, SchedulerCore)
    of = {name: NodeLoad(cpu, memory) for name, (cpu, memory) in loads.items()}
    simulation.core.measured(Loads(simulation.now - age_s, of))


def with_usage(*objects: KubeObject, arguments: dict[str, Any] | None = None) -> Simulation:
    return cluster("usage", *objects, arguments=arguments)


def add(simulation: Simulation, objects: list[KubeObject]) -> Simulation:
    for one in objects:
        simulation.put(one)
    simulation.run()
    return simulation


def test_the_node_that_is_really_idle_is_taken_though_it_looks_the_same():
    simulation = with_usage(node("n0"), node("n1"))
    measured(simulation, n0=(0.5, 0.5), n1=(0.1, 0.1))

    assert homes(add(simulation, gang("job", 1))) == ["n1"]


def test_a_node_above_the_threshold_takes_no_more_pods():
    simulation = with_usage(node("n0"), arguments={"thresholds": {"cpu": 60}})
    measured(simulation, n0=(0.7, 0.1))

    assert homes(add(simulation, gang("job", 1))) == []


def test_a_measurement_that_is_old_says_nothing():
    simulation = with_usage(node("n0"))
    measured(simulation, age_s=301, n0=(0.99, 0.99))

    assert homes(add(simulation, gang("job", 1))) == ["n0"]


def test_what_was_placed_since_the_measurement_counts_by_estimate():
    simulation = with_usage(node("n0", cpu="8"), node("n1", cpu="8"))
    measured(simulation, n0=(0.2, 0.2), n1=(0.1, 0.1))

    assert sorted(homes(add(simulation, gang("job", 6, memory="")))) == ["n0"] * 2 + ["n1"] * 4
