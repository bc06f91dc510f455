"""Jobs that are given their turns together get what turns of their own would have given them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.resources import IntVector
from stromboli.scheduling.trial import Placement, Trial
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import PLAIN, gang, node, pod, priority_class, queue
from stromboli.testkit.simulation import Simulation

USUAL = ("enqueue", "allocate", "backfill")
FIRST = (PluginConf("priority"), PluginConf("gang"), PluginConf("conformance"))
CONFS = {
    "plain": PLAIN,
    "helm": SchedulingConf(
        actions=USUAL,
        tiers=(
            FIRST,
            tuple(
                PluginConf(name)
                for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder")
            ),
        ),
    ),
    "packing": SchedulingConf(
        actions=USUAL,
        tiers=(FIRST, tuple(PluginConf(n) for n in ("drf", "predicates", "capacity", "binpack"))),
    ),
    "evicting": SchedulingConf(
        actions=("enqueue", "allocate", "preempt", "reclaim", "backfill"),
        tiers=(FIRST, tuple(PluginConf(n) for n in ("predicates", "proportion", "nodeorder"))),
    ),
}


class OneTurnEach(SchedulerCore):
    """Nobody goes together with others."""

    def _configure(self) -> None:
        super()._configure()
        self._panel.takes_convoys = False


@dataclass(frozen=True)
class Jobs:
    """Some that are alike."""

    copies: int
    size: int
    least: int
    cpu: int
    queue: str
    priority: str


jobs = st.builds(
    Jobs,
    copies=st.integers(1, 6),
    size=st.integers(1, 4),
    least=st.integers(0, 4),
    cpu=st.integers(1, 3),
    queue=st.sampled_from(["a", "a", "a", "b"]),
    priority=st.sampled_from(["", "", "high"]),
)


def story(
    core: SchedulerCore, nodes: list[tuple[int, int, bool]], limit: int, waiting: list[Jobs]
) -> Simulation:
    """Nodes with some of their room taken, perhaps by pods that are ending; then all the jobs."""
    simulation = Simulation(core, lingering=True)
    simulation.put(queue("a", capability={"cpu": str(limit)} if limit else {}))
    simulation.put(queue("b"))
    simulation.put(priority_class("high", 10))
    for number, (cpu, taken, ending) in enumerate(nodes):
        simulation.put(node(f"n{number}", cpu=str(cpu)))
        if taken:
            old = pod(f"old-{number}", on=f"n{number}", phase="Running", cpu=str(taken))
            simulation.put(old)
            if ending:
                simulation.put(
                    pod(
                        f"old-{number}",
                        on=f"n{number}",
                        phase="Running",
                        cpu=str(taken),
                        ending=True,
                    )
                )
    number = 0
    for kind in waiting:
        for _ in range(kind.copies):
            least = min(kind.least, kind.size)
            group = {
                "in_queue": kind.queue,
                "priority_class_name": kind.priority,
                "phase": "Inqueue",
            }
            name = f"job{number}"
            number += 1
            for item in gang(name, kind.size, min_member=least, group=group, cpu=str(kind.cpu)):
                simulation.put(item)
    simulation.run()
    return simulation


def outcome(simulation: Simulation) -> tuple[object, ...]:
    statuses = {
        place: item.status for place, item in simulation.objects.items() if place[0] == "vcpodgroup"
    }
    return simulation.binds, statuses, dict(simulation.core.explanations), simulation.core.pipelined


@given(
    conf=st.sampled_from(sorted(CONFS)),
    nodes=st.lists(
        st.tuples(st.integers(1, 8), st.integers(0, 3), st.booleans()), min_size=1, max_size=4
    ),
    limit=st.integers(0, 12),
    waiting=st.lists(jobs, min_size=1, max_size=4),
)
@settings(max_examples=examples(75), deadline=None)
def test_jobs_that_go_together_get_what_turns_of_their_own_give_them(
    conf: str, nodes: list[tuple[int, int, bool]], limit: int, waiting: list[Jobs]
):
    together = story(SchedulerCore(CONFS[conf]), nodes, limit, waiting)
    one_by_one = story(OneTurnEach(CONFS[conf]), nodes, limit, waiting)

    assert outcome(together) == outcome(one_by_one)


def test_ten_jobs_that_are_alike_take_one_turn_together(monkeypatch: pytest.MonkeyPatch):
    """Or the property above would hold because nobody ever goes together."""
    sizes: list[int] = []
    keep_all = Trial.keep_all

    def counted(self: Trial, placements: Sequence[Placement], slots: IntVector) -> None:
        sizes.append(len(placements))
        keep_all(self, placements, slots)

    monkeypatch.setattr(Trial, "keep_all", counted)
    ten = Jobs(copies=10, size=2, least=2, cpu=1, queue="a", priority="")

    done = story(SchedulerCore(CONFS["helm"]), [(8, 0, False)] * 3, 0, [ten])

    assert sizes == [10]
    assert len(done.binds) == 20


def test_a_full_queue_ends_the_convoy_where_its_own_turns_would_have_ended():
    six = Jobs(copies=6, size=2, least=2, cpu=1, queue="a", priority="")

    done = story(SchedulerCore(CONFS["packing"]), [(20, 0, False)], 7, [six])

    assert len(done.binds) == 6  # three gangs of two fit into 7 cpu
    assert len(done.core.explanations) == 3
