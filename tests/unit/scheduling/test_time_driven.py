"""What only time changes is found out in time: plugins ask for it, no safety pass has to."""

from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.api.wellknown import PREEMPTABLE, REVOCABLE_ZONE
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.loads import Loads, NodeLoad
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation

HOUR_S = 3600.0


def lent(hours: str) -> Simulation:
    """It is midnight; a node is lent at these hours."""
    zones = PluginConf("tdm", {"tdm.revocable-zone.z": hours, "tdm.evict.period": "1m"})
    conf = SchedulingConf(
        actions=("enqueue", "allocate", "shuffle"),
        tiers=((PluginConf("gang"), zones, PluginConf("predicates")),),
    )
    simulation = Simulation(SchedulerCore(conf))
    simulation.put(queue())
    simulation.put(node("n1", labels={REVOCABLE_ZONE: "z"}))
    return simulation


def revocable(made: Pod) -> Pod:
    metadata = made.metadata
    notes = {**metadata.annotations, REVOCABLE_ZONE: "*", PREEMPTABLE: "true"}
    return replace(made, metadata=replace(metadata, annotations=notes))


def test_a_pod_that_waits_for_lent_nodes_is_placed_when_their_hours_begin():
    simulation = lent("01:00-02:00")
    simulation.put(pod_group("a", min_member=1))
    simulation.put(revocable(pod("a-0", group="a")))
    simulation.run()
    simulation.advance(HOUR_S - 1)
    assert simulation.binds == {}
    simulation.advance(2)

    assert simulation.binds == {("test", "a-0"): "n1"}


def test_pods_on_lent_nodes_go_when_the_hours_end_one_period_after_the_other():
    simulation = lent("23:00-01:00")
    simulation.put(pod_group("a", min_member=1, phase="Running"))
    for number in range(2):
        simulation.put(revocable(pod(f"a-{number}", group="a", on="n1", phase="Running")))
    simulation.run()
    simulation.advance(HOUR_S - 1)
    assert simulation.evictions == []
    simulation.advance(2)
    assert len(simulation.evictions) == 1
    simulation.advance(60)

    assert len(simulation.evictions) == 2


def test_a_node_that_was_too_busy_is_used_when_the_measurement_is_too_old():
    conf = SchedulingConf(
        tiers=((PluginConf("gang"), PluginConf("predicates"), PluginConf("usage")),)
    )
    core = SchedulerCore(conf)
    simulation = Simulation(core)
    simulation.put(queue())
    simulation.put(node("n1"))
    core.measured(Loads(simulation.now, {"n1": NodeLoad(0.9, 0.9)}))
    for item in gang("a", 1):
        simulation.put(item)
    simulation.run()
    simulation.advance(299)
    assert simulation.binds == {}
    simulation.advance(2)

    assert list(simulation.binds.values()) == ["n1"]
