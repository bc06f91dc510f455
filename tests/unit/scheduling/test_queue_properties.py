"""What no sequence of jobs may bring about: a limit passed, a guarantee taken."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.meta import KubeObject
from stromboli.contracts.intents import BindGang, EvictPod
from stromboli.contracts.stimuli import WokeUp
from stromboli.scheduling.accounts import Accounts
from stromboli.scheduling.conf import HIERARCHY_FLAG, PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.plugins.capacity import HierarchicalCapacity
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import gang, node, pod, pod_group, queue
from stromboli.testkit.simulation import Simulation

TOTAL = 16
QUEUES: tuple[str, ...] = ("a", "b", "c", "d")
PARENTS = {"a": "left", "b": "left", "c": "right", "d": "right"}


@dataclass
class Bounds:
    """In whole cpus; None is no bound."""

    capability: int | None = None
    deserved: int = 0
    guarantee: int = 0


@dataclass
class Work:
    queue: str
    size: int
    least: int
    cpu: int
    admitted: bool


@dataclass
class Usage:
    """What every queue holds, step by step, as the intents go by."""

    of: dict[str, int] = field(default_factory=dict[str, int])
    pods: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def start(self, pod_name: str, where: str, cpu: int) -> None:
        self.pods[pod_name] = (where, cpu)
        for name in (where, PARENTS[where]):
            self.of[name] = self.of.get(name, 0) + cpu

    def end(self, pod_name: str) -> None:
        where, cpu = self.pods.pop(pod_name)
        for name in (where, PARENTS[where]):
            self.of[name] -= cpu


small = st.integers(0, 6)
bounds = st.builds(
    Bounds,
    capability=st.one_of(st.none(), st.integers(1, 10)),
    deserved=small,
    guarantee=st.integers(0, 3),
)
work = st.builds(
    Work,
    queue=st.sampled_from(QUEUES),
    size=st.integers(1, 4),
    least=st.integers(0, 4),
    cpu=st.integers(1, 4),
    admitted=st.booleans(),
).map(lambda one: Work(one.queue, one.size, min(one.least, one.size), one.cpu, one.admitted))


def configured(plugin: str, *, hierarchy: bool = False) -> SchedulerCore:
    return SchedulerCore(
        SchedulingConf(
            actions=("enqueue", "allocate", "reclaim"),
            tiers=(
                (
                    PluginConf("gang"),
                    PluginConf(plugin, flags={HIERARCHY_FLAG: hierarchy}),
                    PluginConf("predicates"),
                ),
            ),
        )
    )


def objects_of(number: int, one: Work) -> list[KubeObject]:
    name = f"job{number}"
    phase = "Inqueue" if one.admitted else "Pending"
    needs = {"cpu": str(one.least * one.cpu)}
    return [
        pod_group(name, min_member=one.least, in_queue=one.queue, phase=phase, min_resources=needs),
        *(pod(f"{name}-main-{n}", group=name, cpu=str(one.cpu)) for n in range(one.size)),
    ]


def spec_of(one: Bounds, parent: str = "") -> dict[str, Any]:
    return {
        "capability": {} if one.capability is None else {"cpu": str(one.capability)},
        "deserved": {"cpu": str(one.deserved)} if one.deserved else {},
        "guarantee": {"cpu": str(one.guarantee)} if one.guarantee else {},
        "parent": parent,
    }


def play(core: SchedulerCore, setting: Iterable[KubeObject], jobs: list[Work]) -> Simulation:
    """One job after the other; who is evicted is gone at once, who is bound runs."""
    simulation = Simulation(core, lingering=False)
    for item in setting:
        simulation.put(item)
    for number, one in enumerate(jobs):
        for item in objects_of(number, one):
            simulation.put(item)
        simulation.run()
        for _, name in list(simulation.binds):
            place = ("pod", "test", name)
            if place in simulation.objects and simulation.objects[place].status.phase != "Running":
                job = jobs[int(name.removeprefix("job").split("-")[0])]
                simulation.put(
                    pod(
                        name,
                        group=name.split("-")[0],
                        cpu=str(job.cpu),
                        on=simulation.binds["test", name],
                        phase="Running",
                    )
                )
        simulation.run()
    return simulation


def follow(simulation: Simulation, jobs: list[Work]) -> Iterable[tuple[Usage, str]]:
    """After every bind and eviction: what the queues hold, and the queue that lost something."""
    usage = Usage()
    for intent in simulation.intents:
        match intent:
            case BindGang():
                for bind in intent.binds:
                    job = jobs[int(bind.name.removeprefix("job").split("-")[0])]
                    usage.start(bind.name, job.queue, job.cpu)
                yield usage, ""
            case EvictPod():
                loser = usage.pods[intent.name][0]
                usage.end(intent.name)
                yield usage, loser
            case _:
                pass


def spoken_for(usage: Usage, by_name: dict[str, Bounds]) -> int:
    """What queues have, or are sure of: none of that may be given to somebody else."""
    return sum(max(usage.of.get(name, 0), one.guarantee) for name, one in by_name.items())


NODES = [node(f"n{number}", cpu="8", memory="80Gi") for number in range(2)]


@settings(max_examples=examples(25), deadline=None)
@given(limits=st.tuples(*[bounds] * 4), jobs=st.lists(work, min_size=1, max_size=8))
def test_side_by_side_no_limit_is_passed_and_no_guarantee_taken(
    limits: tuple[Bounds, ...], jobs: list[Work]
):
    by_name = dict(zip(QUEUES, limits, strict=True))
    setting = [*NODES, *(queue(name, **spec_of(one)) for name, one in by_name.items())]

    simulation = play(configured("capacity"), setting, jobs)

    kept = sum(one.guarantee for one in limits)
    for usage, loser in follow(simulation, jobs):
        assert spoken_for(usage, by_name) <= TOTAL
        for name, one in by_name.items():
            most = max(0, TOTAL - kept) + one.guarantee
            if one.capability is not None:
                most = min(most, one.capability)
            assert usage.of.get(name, 0) <= most
        if loser:
            assert usage.of[loser] >= by_name[loser].guarantee


@settings(max_examples=examples(35), deadline=None)
@given(
    guarantee=st.integers(0, 5),
    deserved=st.integers(0, 5),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    asked=st.integers(1, 4),
)
def test_nobody_is_brought_below_its_guarantee(
    guarantee: int, deserved: int, sizes: list[int], asked: int
):
    """A full cluster, all of it in one queue, and another that deserves everything."""
    core = configured("capacity")
    simulation = Simulation(core, lingering=False)
    simulation.put(node("n1", cpu=str(sum(sizes)), memory="80Gi"))
    simulation.put(queue("a", **spec_of(Bounds(deserved=deserved, guarantee=guarantee))))
    simulation.put(queue("b", deserved={"cpu": str(sum(sizes))}))
    simulation.put(pod_group("theirs", min_member=0, in_queue="a", phase="Running"))
    for number, size in enumerate(sizes):
        simulation.put(
            pod(f"theirs-{number}", group="theirs", cpu=str(size), on="n1", phase="Running")
        )
    for item in gang("mine", 1, cpu=str(asked), group={"in_queue": "b", "phase": "Inqueue"}):
        simulation.put(item)

    simulation.run()

    evicted = [int(name.split("-")[1]) for _, name in simulation.evictions]
    left = sum(sizes) - sum(sizes[number] for number in evicted)
    assert left >= min(guarantee, sum(sizes))
    assert bool(evicted) == bool(simulation.binds)


@settings(max_examples=examples(25), deadline=None)
@given(
    limits=st.tuples(*[bounds] * 4),
    above=st.tuples(*[st.integers(2, 12)] * 2),
    jobs=st.lists(work, min_size=1, max_size=8),
)
def test_in_a_tree_no_limit_is_passed_on_any_level_and_no_guarantee_taken(
    limits: tuple[Bounds, ...], above: tuple[int, int], jobs: list[Work]
):
    by_name = dict(zip(QUEUES, limits, strict=True))
    tops = dict(zip(("left", "right"), above, strict=True))
    setting = [
        *NODES,
        *(queue(name, capability={"cpu": str(most)}) for name, most in tops.items()),
        *(queue(name, **spec_of(one, PARENTS[name])) for name, one in by_name.items()),
    ]

    simulation = play(configured("capacity", hierarchy=True), setting, jobs)

    for usage, loser in follow(simulation, jobs):
        assert spoken_for(usage, by_name) <= TOTAL
        for name, most in tops.items():
            assert usage.of.get(name, 0) <= most
        for name, one in by_name.items():
            if one.capability is not None:
                assert usage.of.get(name, 0) <= one.capability
        if loser:
            assert usage.of[loser] >= by_name[loser].guarantee


@settings(max_examples=examples(25), deadline=None)
@given(
    weights=st.tuples(*[st.integers(1, 5)] * 4),
    limits=st.tuples(*[bounds] * 4),
    jobs=st.lists(work, min_size=1, max_size=8),
)
def test_by_weight_no_limit_is_passed_and_no_guarantee_taken(
    weights: tuple[int, ...], limits: tuple[Bounds, ...], jobs: list[Work]
):
    by_name = dict(zip(QUEUES, limits, strict=True))
    setting = [
        *NODES,
        *(
            queue(name, weight=weight, **spec_of(one))
            for (name, one), weight in zip(by_name.items(), weights, strict=True)
        ),
    ]

    simulation = play(configured("proportion"), setting, jobs)

    kept = sum(one.guarantee for one in limits)
    for usage, loser in follow(simulation, jobs):
        assert spoken_for(usage, by_name) <= TOTAL
        for name, one in by_name.items():
            most = max(0, TOTAL - kept) + one.guarantee
            if one.capability is not None:
                most = max(min(most, one.capability), one.guarantee)
            assert usage.of.get(name, 0) <= most
        if loser:
            assert usage.of[loser] >= by_name[loser].guarantee


@settings(max_examples=examples(20), deadline=None)
@given(
    limits=st.tuples(*[bounds] * 4),
    jobs=st.lists(work, min_size=1, max_size=6),
    data=st.data(),
)
def test_the_order_of_facts_that_come_together_does_not_matter(
    limits: tuple[Bounds, ...], jobs: list[Work], data: st.DataObject
):
    by_name = dict(zip(QUEUES, limits, strict=True))
    objects: list[KubeObject] = [
        *NODES,
        *(queue(name, **spec_of(one)) for name, one in by_name.items()),
    ]
    for number, one in enumerate(jobs):
        objects += objects_of(number, one)
    turned = data.draw(st.permutations(objects))

    def outcome(given_objects: list[KubeObject]) -> dict[tuple[str, str], str]:
        simulation = Simulation(configured("capacity"))
        for item in given_objects:
            simulation.put(item)
        simulation.run()
        return simulation.binds

    assert outcome(objects) == outcome(turned)


@settings(max_examples=examples(20), deadline=None)
@given(jobs=st.lists(work, min_size=1, max_size=8), data=st.data())
def test_sums_kept_job_by_job_are_those_of_a_fresh_start(jobs: list[Work], data: st.DataObject):
    """Whatever came and went: a new core that reads the same facts has the same accounts."""
    core = configured("capacity", hierarchy=True)
    setting = [
        *NODES,
        queue("left"),
        queue("right"),
        *(queue(name, deserved={"cpu": "4"}, parent=PARENTS[name]) for name in QUEUES),
    ]
    simulation = play(core, setting, jobs)
    for _, name in list(simulation.binds):
        if ("pod", "test", name) in simulation.objects and data.draw(st.booleans()):
            simulation.delete("pod", "test", name)
    simulation.put(queue("a", deserved={"cpu": "4"}, parent="right"))
    simulation.run()
    fresh = configured("capacity", hierarchy=True)

    simulation.restart(fresh)

    kept, counted = accounts(core), accounts(fresh)
    for name in ("root", "left", "right", *QUEUES):
        assert kept.of(name) == counted.of(name)


def accounts(core: SchedulerCore) -> Accounts:
    """As of one more cycle, so that what the last one decided is in them."""
    core.handle(WokeUp(), now=2_000_000_000.0)
    plugin = core._panel.tiers[0][1].plugin
    assert isinstance(plugin, HierarchicalCapacity)
    return plugin.accounts


def test_a_gang_that_would_pass_the_limit_leaves_no_trace():
    core = configured("capacity")
    simulation = Simulation(core)
    for item in [
        *NODES,
        queue("a", capability={"cpu": "3"}),
        *gang("g", 4, group={"in_queue": "a"}),
    ]:
        simulation.put(item)

    simulation.run()

    assert simulation.binds == {}
    assert core.explanations["test", "g"].code.value == "ExceedsMax"
    assert "the job needs 4 cpu, which is more than that" in core.explanations["test", "g"].sentence
