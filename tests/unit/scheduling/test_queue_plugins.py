"""The plugins that share out the cluster among queues, asked after a cycle."""

from typing import Any

import pytest

from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf import HIERARCHY_FLAG, PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.plugins.capacity import Capacity, HierarchicalCapacity
from stromboli.scheduling.plugins.namespacefair import NamespaceFair
from stromboli.scheduling.plugins.proportion import Proportion
from stromboli.scheduling.plugins.registry import build
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation

GI = 1 << 30


def after_a_cycle(name: str, *objects: KubeObject, hierarchy: bool = False) -> Any:
    """The plugin, when the core has looked at these objects and can do nothing."""
    conf = PluginConf(name, flags={HIERARCHY_FLAG: hierarchy})
    core = SchedulerCore(SchedulingConf(actions=("enqueue",), tiers=((conf,),)))
    simulation = Simulation(core)
    for item in objects:
        simulation.put(item)
    simulation.run()
    return core._panel.tiers[0][0].plugin


def running(name: str, in_queue: str, *, cpu: str, memory: str, on: str = "n1") -> list[KubeObject]:
    return [
        pod_group(name, min_member=1, in_queue=in_queue, phase="Running"),
        pod(f"{name}-0", group=name, cpu=cpu, memory=memory, on=on, phase="Running"),
    ]


def waiting(name: str, in_queue: str, *, cpu: str, memory: str) -> list[KubeObject]:
    return [
        pod_group(name, min_member=1, in_queue=in_queue, phase="Inqueue"),
        pod(f"{name}-0", group=name, cpu=cpu, memory=memory),
    ]


# Capacity: the share of section 7.7.


@pytest.mark.parametrize(
    ("deserved", "cpu", "memory", "share"),
    [
        ({"cpu": "2", "memory": "2Gi"}, "3", "2Gi", 1.5),
        ({"cpu": "2", "memory": "4Gi"}, "1", "3Gi", 0.75),
        ({}, "1", "1Gi", 1.0),
        ({"cpu": "0", "memory": "0"}, "1", "1Gi", 1.0),
    ],
)
def test_a_share_is_the_largest_part_of_what_is_deserved(
    deserved: dict[str, str], cpu: str, memory: str, share: float
):
    plugin = after_a_cycle(
        "capacity",
        node("n1", cpu="8", memory="8Gi"),
        queue("q", deserved=deserved),
        *running("g", "q", cpu=cpu, memory=memory),
    )

    assert isinstance(plugin, Capacity)
    assert plugin.share("q") == share


def test_of_equal_shares_the_queue_that_deserves_something_comes_first():
    deserves, nothing = queue("a", deserved={"cpu": "2"}), queue("b")
    plugin = after_a_cycle(
        "capacity",
        node("n1", cpu="8", memory="8Gi"),
        deserves,
        nothing,
        *running("g", "a", cpu="2", memory="1Gi"),
    )

    order = {name: plugin.queue_order(plugin._session.queues[name]) for name in ("a", "b")}

    assert plugin.share("a") == plugin.share("b") == 1.0
    assert order["a"] < order["b"]


def test_what_a_queue_uses_counts_for_those_above():
    plugin = after_a_cycle(
        "capacity",
        node("n1", cpu="8", memory="8Gi"),
        queue("top", deserved={"cpu": "4"}),
        queue("left", parent="top", deserved={"cpu": "2"}),
        queue("right", parent="top", deserved={"cpu": "2"}),
        *running("g", "left", cpu="1", memory="1Gi"),
        *running("h", "right", cpu="2", memory="1Gi"),
        hierarchy=True,
    )

    assert isinstance(plugin, HierarchicalCapacity)
    assert [plugin.share(name) for name in ("top", "left", "right")] == [0.75, 0.5, 1.0]


def test_a_queue_that_moves_takes_what_it_uses_along():
    core = SchedulerCore(
        SchedulingConf(
            actions=("enqueue",), tiers=((PluginConf("capacity", flags={HIERARCHY_FLAG: True}),),)
        )
    )
    simulation = Simulation(core)
    objects: list[KubeObject] = [
        node("n1", cpu="8", memory="8Gi"),
        queue("one", deserved={"cpu": "4"}),
        queue("other", deserved={"cpu": "4"}),
        queue("leaf", parent="one", deserved={"cpu": "4"}),
        *running("g", "leaf", cpu="2", memory="1Gi"),
    ]
    for item in objects:
        simulation.put(item)
    simulation.run()
    plugin: Any = core._panel.tiers[0][0].plugin
    before = (plugin.share("one"), plugin.share("other"))

    simulation.put(queue("leaf", parent="other", deserved={"cpu": "4"}))
    simulation.run()

    assert before == (0.5, 0.0)
    assert (plugin.share("one"), plugin.share("other")) == (0.0, 0.5)


# Proportion.


def test_weights_divide_the_cluster_among_queues_that_have_jobs():
    plugin = after_a_cycle(
        "proportion",
        node("n1", cpu="9", memory="90Gi"),
        queue("a", weight=1),
        queue("b", weight=2),
        queue("idle", weight=100),
        *waiting("g", "a", cpu="9", memory="9Gi"),
        *waiting("h", "b", cpu="9", memory="9Gi"),
    )

    assert isinstance(plugin, Proportion)
    assert plugin.entitlement("a").deserved["cpu"] == 3000
    assert plugin.entitlement("b").deserved["cpu"] == 6000
    assert plugin.entitlement("b").deserved["memory"] == 9 * GI
    assert plugin.entitlement("idle").deserved == {}


def test_a_queue_is_overused_only_when_it_has_all_it_deserves_of_everything():
    objects = [
        node("n1", cpu="4", memory="4Gi"),
        queue("a"),
        queue("b"),
        *running("g", "a", cpu="2", memory="1Gi"),
        *waiting("h", "b", cpu="4", memory="4Gi"),
    ]
    some = after_a_cycle("proportion", *objects, *waiting("more", "a", cpu="1", memory="3Gi"))
    everything = after_a_cycle("proportion", *objects)

    assert some.entitlement("a").deserved["memory"] == 2 * GI
    assert not some.overused(some._session.queues["a"])
    assert everything.overused(everything._session.queues["a"])


def test_sums_follow_the_jobs():
    core = SchedulerCore(SchedulingConf(actions=("enqueue",), tiers=((PluginConf("proportion"),),)))
    simulation = Simulation(core)
    for item in [
        node("n1", cpu="8", memory="8Gi"),
        queue("a"),
        queue("b"),
        *running("g", "a", cpu="2", memory="1Gi"),
        *waiting("h", "a", cpu="1", memory="1Gi"),
    ]:
        simulation.put(item)
    simulation.run()
    plugin: Any = core._panel.tiers[0][0].plugin
    both = (plugin.accounts.of("a").allocated["cpu"], plugin.accounts.of("a").requested["cpu"])

    simulation.put(pod_group("h", min_member=1, in_queue="b", phase="Inqueue"))
    simulation.delete("pod", "test", "g-0")
    simulation.run()

    assert both == (2000, 3000)
    assert plugin.accounts.of("a").requested == {}
    assert plugin.accounts.of("b").requested["cpu"] == 1000

    simulation.delete("vcpodgroup", "test", "g")
    simulation.run()

    assert plugin.accounts.queues == ["b"]


# Figures.


def test_figures_have_volcanos_names():
    plugin = after_a_cycle(
        "proportion",
        node("n1", cpu="8", memory="8Gi", nvidia_com__gpu="4"),
        queue("q", weight=3, capability={"cpu": "4"}),
        *running("g", "q", cpu="2", memory="1Gi"),
        *waiting("h", "q", cpu="1", memory="1Gi"),
    )
    label = (("queue_name", "q"),)

    found = plugin.gauges()

    assert found["queue_weight", label] == 3
    assert found["queue_allocated_milli_cpu", label] == 2000
    assert found["queue_request_milli_cpu", label] == 3000
    assert found["queue_deserved_milli_cpu", label] == 3000
    assert found["queue_capacity_milli_cpu", label] == 4000
    assert found["queue_real_capacity_milli_cpu", label] == 4000
    assert found["queue_allocated_memory_bytes", label] == GI
    assert found["queue_share", label] == pytest.approx(2 / 3)
    assert found["queue_overused", label] == 0
    gpu = (*label, ("resource", "nvidia.com/gpu"))
    assert found["queue_real_capacity_scalar_resources", gpu] == 4000


def test_shares_of_namespaces_are_figures_too():
    plugin = after_a_cycle(
        "namespacefair",
        node("n1", cpu="8", memory="8Gi"),
        queue("q"),
        *running("g", "q", cpu="2", memory="1Gi"),
    )

    assert isinstance(plugin, NamespaceFair)
    assert plugin.gauges() == {
        ("namespace_share", (("namespace_name", "test"),)): 0.25,
        ("namespace_weight", (("namespace_name", "test"),)): 1,
        ("namespace_weighted_share", (("namespace_name", "test"),)): 0.25,
    }


# Configuration.


@pytest.mark.parametrize("name", ["sla", "queuepolicy"])
def test_a_waiting_time_that_is_no_duration_is_refused(name: str):
    with pytest.raises(BadConfiguration, match="a duration such as 30m"):
        build(PluginConf(name, {"sla-waiting-time": "soon"}))


def test_a_level_below_zero_is_zero():
    conf = PluginConf("capacity", {"ancestorReclaimLevel": -3}, {HIERARCHY_FLAG: True})

    plugin = build(conf)

    assert isinstance(plugin, HierarchicalCapacity)
    assert plugin._levels == 0


def test_what_is_admitted_counts_against_the_queue_until_it_has_it():
    """Two jobs of which the queue may have only one; both ask in the same cycle."""
    core = SchedulerCore(
        SchedulingConf(actions=("enqueue", "allocate"), tiers=((PluginConf("proportion"),),))
    )
    simulation = Simulation(core)
    for item in [
        node("n1", cpu="8", memory="8Gi"),
        queue("q", capability={"cpu": "3"}),
        *gang("a", 2, group={"in_queue": "q", "min_resources": {"cpu": "2"}}),
        *gang("b", 2, group={"in_queue": "q", "min_resources": {"cpu": "2"}}),
    ]:
        simulation.put(item)

    simulation.run()

    assert sorted(simulation.binds) == [("test", "a-main-0"), ("test", "a-main-1")]
    assert core.explanations["test", "b"].code.value == "QueueLimit"
    assert core.explanations["test", "b"].short_by == (("cpu", 1000),)


# What wakes a job that its queue refused.


def started(plugin: str, *objects: KubeObject, hierarchy: bool = False) -> Simulation:
    conf = PluginConf(plugin, flags={HIERARCHY_FLAG: hierarchy})
    core = SchedulerCore(
        SchedulingConf(
            actions=("enqueue", "allocate"),
            tiers=((PluginConf("gang"), conf, PluginConf("predicates")),),
        )
    )
    simulation = Simulation(core)
    for item in objects:
        simulation.put(item)
    simulation.run()
    return simulation


def test_a_share_that_grows_because_another_job_goes_is_used_at_once():
    """Nothing came free on any node: only what others want has changed."""
    simulation = started(
        "proportion",
        node("n1", cpu="4", memory="8Gi"),
        queue("a"),
        queue("b"),
        *running("has", "a", cpu="2", memory="1Gi"),
        *waiting("more", "a", cpu="1", memory="1Gi"),
        *gang("large", 3, group={"in_queue": "b", "phase": "Inqueue"}),
    )
    before = dict(simulation.binds)

    for number in range(3):
        simulation.delete("pod", "test", f"large-main-{number}")
    simulation.run()

    assert before == {}
    assert simulation.binds == {("test", "more-0"): "n1"}


def test_a_limit_that_is_raised_is_used_at_once():
    simulation = started(
        "capacity",
        node("n1", cpu="4", memory="8Gi"),
        queue("top", capability={"cpu": "1"}),
        queue("a", parent="top"),
        *waiting("g", "a", cpu="2", memory="1Gi"),
        hierarchy=True,
    )
    before = dict(simulation.binds)

    simulation.put(queue("top", capability={"cpu": "2"}))
    simulation.run()

    assert before == {}
    assert simulation.binds == {("test", "g-0"): "n1"}


def test_a_limit_that_a_sibling_makes_room_under_is_used_at_once():
    simulation = started(
        "capacity",
        node("n1", cpu="4", memory="8Gi"),
        queue("top", capability={"cpu": "2"}),
        queue("a", parent="top"),
        queue("b", parent="top"),
        *running("has", "b", cpu="1", memory="1Gi"),
        *waiting("g", "a", cpu="2", memory="1Gi"),
        hierarchy=True,
    )
    before = dict(simulation.binds)

    simulation.delete("pod", "test", "has-0")
    simulation.run()

    assert before == {}
    assert simulation.binds == {("test", "g-0"): "n1"}


def test_a_closed_queue_keeps_what_it_has_and_gets_nothing_more():
    simulation = started(
        "capacity",
        node("n1", cpu="4", memory="8Gi"),
        queue("a", state="Closing"),
        *running("has", "a", cpu="1", memory="1Gi"),
        *waiting("g", "a", cpu="1", memory="1Gi"),
    )

    simulation.put(queue("a", state="Open"))
    before = dict(simulation.binds)
    simulation.run()

    assert before == {}
    assert simulation.binds == {("test", "g-0"): "n1"}


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
@pytest.mark.parametrize("phase", ["Inqueue", "Pending"])
def test_jobs_of_a_full_queue_sleep_until_it_has_room_for_them(plugin: str, phase: str):
    """Whatever else happens in the cluster, they are not even looked at."""
    late: list[KubeObject] = []
    for number in range(3):
        group = {"in_queue": "full", "phase": phase, "min_resources": {"cpu": "2"}}
        late += gang(f"late-{number}", 2, group=group)
    simulation = started(
        plugin,
        node("n1", cpu="8", memory="80Gi"),
        queue("full", capability={"cpu": "3"}),
        queue("other"),
        pod_group(
            "has", min_member=2, in_queue="full", phase="Running", min_resources={"cpu": "2"}
        ),
        pod("has-0", group="has", on="n1", phase="Running"),
        pod("has-1", group="has", on="n1", phase="Running"),
        *running("elsewhere", "other", cpu="1", memory="1Gi"),
        *late,
    )
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    simulation.advance(10)
    first_look = core.explanations["test", "late-0"].evaluated

    simulation.delete("pod", "test", "elsewhere-0")
    simulation.run()
    after_others = core.explanations["test", "late-0"].evaluated
    simulation.delete("pod", "test", "has-0")
    simulation.delete("pod", "test", "has-1")
    simulation.delete("vcpodgroup", "test", "has")
    simulation.run()

    assert after_others == first_look
    assert sorted(simulation.binds) == [("test", "late-0-main-0"), ("test", "late-0-main-1")]
    assert core.explanations["test", "late-1"].evaluated > first_look
