"""What a place in the network is worth, by where pods end up and by numbers."""

from typing import Any

import numpy as np
import pytest

from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import NetworkTopologySpec
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.hypernodes import HyperNodes, read_hyper_node
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import Gathering
from stromboli.scheduling.plugins.network_topology_aware import NetworkTopologyAware, build
from stromboli.scheduling.session import Session
from stromboli.testkit.scheduling_objects import gang, hyper_node, node, pod, queue
from stromboli.testkit.simulation import Simulation

NAME = "network-topology-aware"
RACKS = (
    hyper_node("rack-a", 1, nodes=["a1", "a2"]),
    hyper_node("rack-b", 1, nodes=["b1", "b2"]),
    hyper_node("rack-c", 1, nodes=["c1", "c2"]),
    hyper_node("hall", 2, parts=["rack-a", "rack-b"]),
    hyper_node("site", 3, parts=["hall", "rack-c"]),
)
NODES: list[KubeObject] = [
    node(name, cpu="4", memory="4Gi") for name in ("a1", "a2", "b1", "b2", "c1", "c2")
]
HARD = NetworkTopologySpec(mode="hard", highest_tier_allowed=3)


def simulated(*objects: KubeObject | list[KubeObject], **arguments: Any) -> Simulation:
    plugins = (PluginConf("gang"), PluginConf("predicates"), PluginConf(NAME, arguments))
    simulation = Simulation(SchedulerCore(SchedulingConf(tiers=(plugins,))))
    for item in (queue(), *objects):
        for one in item if isinstance(item, list) else [item]:
            simulation.put(one)
    simulation.run()
    return simulation


def asked(
    *objects: KubeObject, arguments: dict[str, Any] | None = None
) -> tuple[NetworkTopologyAware, Session]:
    """The plugin as it is after a cycle over these, and its session."""
    simulation = simulated(*objects)
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    plugin = build(arguments or {})
    cluster = core.cluster
    session = Session(
        now=simulation.now,
        nodes=cluster.nodes,
        panel=core._panel,
        queues=cluster.queues,
        jobs=cluster.jobs,
        contenders={},
        make_contender=core._contender,
        queue_of=cluster.queue_name,
        tenants=cluster.tenants,
        objects=cluster.objects,
        neighbourhood=cluster.neighbourhood,
        domains=cluster.domains,
        hyper_nodes=cluster.hyper_nodes,
        look_again=lambda _job, _at: None,
    )
    plugin.opened(session)
    return plugin, session


def score_of(plugin: NetworkTopologyAware, session: Session, job: str) -> dict[str, float]:
    contender: Contender = session.contender(("test", job))
    score = plugin.closeness(contender, contender.waiting[0])
    assert score is not None
    return dict(zip(session.nodes.names, score.round(1).tolist(), strict=True))


def test_nodes_are_the_better_the_lower_one_must_go_up_to_the_jobs_pods():
    """Three real tiers and the whole cluster above them: 100, 66.7 and 33.3."""
    plugin, session = asked(
        *NODES,
        *RACKS,
        *gang("job", 3, min_member=1, group={"network_topology": HARD, "phase": "Running"})[:1],
        pod("job-main-0", group="job", on="a1", phase="Running"),
        pod("job-main-1", group="job", cpu="100"),
    )

    near = score_of(plugin, session, "job")

    assert (near["b1"], near["c1"]) == (66.7, 33.3)
    assert near["a1"] == near["a2"] == pytest.approx(150.0)  # and half of its pods are there


def test_a_job_that_stands_nowhere_likes_all_nodes():
    plugin, session = asked(
        *NODES, *RACKS, *gang("job", 1, cpu="100", group={"network_topology": HARD})
    )
    contender = session.contender(("test", "job"))

    assert plugin.closeness(contender, contender.waiting[0]) is None


def test_other_pods_fill_up_what_is_in_use_the_lower_the_part_the_more_it_counts():
    plugin, session = asked(
        *NODES,
        *RACKS,
        pod("other", on="a1", cpu="3", memory="3Gi", phase="Running", scheduler="default"),
        *gang("job", 1, cpu="1", memory="1Gi", node_selector={"no": "where"}),
    )

    liking = score_of(plugin, session, "job")

    weights = [0.8**power for power in range(4)]
    in_use = [4 / 8, 4 / 16, 4 / 24, 4 / 24]
    beside = [1 / 8, 4 / 16, 4 / 24, 4 / 24]
    for name, full in (("a2", in_use), ("b1", beside)):
        parts = zip(weights, full, strict=True)
        expected = 100 * sum(weight * part for weight, part in parts) / sum(weights)
        assert liking[name] == pytest.approx(expected, abs=0.06)
    # A rack right under the site has nothing at tier 2, which counts as full.
    assert liking["c1"] > liking["b1"]


@pytest.mark.parametrize(
    "arguments", [{"hypernode.binpack.normal-pod.enable": "false"}, {"weight": 0}]
)
def test_that_can_be_switched_off(arguments: dict[str, Any]):
    plugin, session = asked(
        *NODES, *RACKS, *gang("job", 1, node_selector={"no": "where"}), arguments=arguments
    )
    contender = session.contender(("test", "job"))

    assert plugin.closeness(contender, contender.waiting[0]) is None


def test_pods_go_where_others_are():
    hall = [each for each in RACKS if each.metadata.name in {"rack-a", "rack-b", "hall"}]
    simulation = simulated(
        NODES[:4],
        [*hall],
        pod("other", on="b1", cpu="4", phase="Running", scheduler="default"),
        gang("job", 2),
    )

    assert sorted(simulation.binds.values()) == ["b2", "b2"]


def test_domains_are_scored_by_how_full_they_would_be_and_zero_where_it_does_not_fit():
    plugin, session = asked(
        *NODES,
        *RACKS,
        pod("other", on="a1", cpu="2", memory="1Gi", phase="Running", scheduler="default"),
        arguments={"weight": 2, "hypernode.binpack.cpu": 3},
    )
    network = session.network
    where = np.array([network.names.index(name) for name in ("rack-a", "rack-b", "hall")])
    nowhere = np.zeros(0, dtype=np.int64)
    small = Gathering((("cpu", 2000), ("memory", 1 << 30)), 2, nowhere)
    large = Gathering((("cpu", 7000), ("memory", 1 << 30)), 2, nowhere)

    assert plugin.domain_scores(small, where).tolist() == [
        200 * (3 * 4 / 8 + 2 / 8) / 4,
        200 * (3 * 2 / 8 + 1 / 8) / 4,
        200 * (3 * 4 / 16 + 2 / 16) / 4,
    ]
    assert plugin.domain_scores(large, where)[0] == 0


def test_of_equally_full_domains_the_one_with_most_of_its_pods_is_best():
    plugin, session = asked(*NODES, *RACKS)
    where = np.array([session.network.names.index(name) for name in ("rack-a", "rack-b")])
    gathering = Gathering((("cpu", 1000),), 4, np.array([2, 2, 3], dtype=np.int64))

    scores = plugin.domain_scores(gathering, where)

    assert (scores[1] - scores[0]) == pytest.approx(100 * 3 / 4)


def test_gradients_ascend_and_for_evictions_descend():
    hyper_nodes = HyperNodes()
    for item in RACKS:
        hyper_nodes.put(read_hyper_node(item))
    simulation = simulated(NODES)
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    network = hyper_nodes.network(core.cluster.nodes)
    plugin = build({})

    def named(groups: list[Any]) -> list[list[str]]:
        return [[network.names[each] for each in group] for group in groups]

    assert named(plugin.gradients(network, network.top, 2, evicting=False)) == [
        ["rack-a", "rack-b", "rack-c"],
        ["hall"],
    ]
    assert named(plugin.gradients(network, network.top, 3, evicting=True)) == [
        ["site"],
        ["hall"],
        ["rack-a", "rack-b", "rack-c"],
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"weight": "heavy"}, "weight"),
        ({"hypernode.binpack.cpu": 1.5}, "hypernode.binpack.cpu"),
        ({"hypernode.binpack.normal-pod.fading": "slow"}, "fading"),
        ({"hypernode.binpack.normal-pod.enabled": True}, "normal-pod.enable"),
        (
            {
                "hypernode.binpack.resources": "nvidia.com/gpu",
                "hypernode.binpack.resources.nvidia.com/gpus": 2,
            },
            "did you mean 'hypernode.binpack.resources.nvidia.com/gpu'",
        ),
    ],
)
def test_arguments_of_the_wrong_name_or_type_are_refused(arguments: dict[str, Any], problem: str):
    with pytest.raises(BadConfiguration, match=problem):
        build(arguments)


def test_values_that_make_no_sense_count_as_the_default():
    """As in Volcano: a negative weight is 1, a negative fading 0.8, no domains 8."""
    plugin, session = asked(
        *NODES,
        *RACKS,
        arguments={"weight": -1, "hypernode.binpack.cpu": -1, "hypernode.binpack.memory": -3},
    )
    other, _ = asked(*NODES, *RACKS)
    gathering = Gathering((("cpu", 1000), ("memory", 1 << 30)), 1, np.zeros(0, dtype=np.int64))
    where = np.arange(len(session.network))

    assert (
        plugin.domain_scores(gathering, where).tolist()
        == other.domain_scores(gathering, where).tolist()
    )
