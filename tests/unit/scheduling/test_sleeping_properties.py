"""Who sleeps on misses nothing: looking at the first of jobs that are alike is looking at all."""

from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.contracts.intents import BindGang, EvictPod
from stromboli.contracts.stimuli import Instruction
from stromboli.scheduling.alike import Alike
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.session import Session
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_objects import (
    PLAIN,
    gang,
    node,
    pod,
    priority_class,
    queue,
)
from stromboli.testkit.simulation import Simulation

QUEUES = ("a", "b")
USUAL = ("enqueue", "allocate", "backfill")
EVICTING = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
FIRST = (PluginConf("priority"), PluginConf("gang"), PluginConf("conformance"))
HELM = (
    FIRST,
    tuple(
        PluginConf(name)
        for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")
    ),
)
CAPACITY = (
    FIRST,
    tuple(PluginConf(name) for name in ("drf", "predicates", "capacity", "nodeorder")),
)
UNSHARED = (FIRST, tuple(PluginConf(name) for name in ("overcommit", "predicates", "nodeorder")))
FAIR = (FIRST, tuple(PluginConf(name) for name in ("namespacefair", "predicates", "nodeorder")))

CONFS = {
    "plain": PLAIN,
    "helm": SchedulingConf(actions=USUAL, tiers=HELM),
    "capacity": SchedulingConf(actions=USUAL, tiers=CAPACITY),
    "evicting": SchedulingConf(actions=EVICTING, tiers=HELM),
    "evicting, nobody shares": SchedulingConf(actions=EVICTING, tiers=UNSHARED),
    "reclaiming": SchedulingConf(actions=("enqueue", "allocate", "reclaim"), tiers=CAPACITY),
    "room is made first": SchedulingConf(actions=("preempt", "allocate"), tiers=UNSHARED),
    "an order that moves": SchedulingConf(actions=USUAL, tiers=FAIR),
}


class Unlike(Alike):
    def like(self, session: Session, contender: Contender) -> None:
        return None


class OneByOne(SchedulerCore):
    """Looks at every job that could be helped: to it nobody is like another."""

    def _configure(self) -> None:
        super()._configure()
        self._alike = Unlike(self._panel, self._conf.actions)


class Sleepless(OneByOne):
    """Looks at every job in every cycle."""

    def _cycle(self, now: float) -> list[Instruction]:
        self.cluster.changes.everything = True
        return super()._cycle(now)


@dataclass(frozen=True)
class Shape:
    """Of some jobs that are alike."""

    queue: str
    size: int
    least: int
    cpu: int
    priority: str
    admitted: bool
    copies: int


@dataclass(frozen=True)
class JobEnds:
    number: int


@dataclass(frozen=True)
class PodEnds:
    number: int


@dataclass(frozen=True)
class Node:
    cpu: int


@dataclass(frozen=True)
class Limit:
    queue: str
    cpu: int


@dataclass(frozen=True)
class Pause:
    seconds: int


Step: TypeAlias = Shape | JobEnds | PodEnds | Node | Limit | Pause

shapes = st.builds(
    Shape,
    queue=st.sampled_from(QUEUES),
    size=st.integers(1, 3),
    least=st.integers(0, 3),
    cpu=st.integers(1, 3),
    priority=st.sampled_from(["", "", "high", "low"]),
    admitted=st.booleans(),
    copies=st.integers(1, 4),
)
ends = st.one_of(st.builds(JobEnds, st.integers(0, 30)), st.builds(PodEnds, st.integers(0, 30)))
others = st.one_of(
    ends,
    ends,
    ends,
    st.builds(Node, st.integers(1, 4)),
    st.builds(Limit, st.sampled_from(QUEUES), st.integers(2, 9)),
    st.builds(Pause, st.integers(1, 12)),
)


def _with(palette: list[Shape]) -> st.SearchStrategy[list[Step]]:
    """A full cluster first; few shapes, so that many jobs are alike."""
    arrivals = st.sampled_from(palette)
    return st.tuples(
        st.lists(arrivals, min_size=2, max_size=4),
        st.lists(st.one_of(arrivals, others, others), min_size=1, max_size=8),
    ).map(lambda parts: [*parts[0], *parts[1]])


stories = st.lists(shapes, min_size=1, max_size=3).flatmap(_with)


class Story:
    """One core in a small cluster, and what it decided."""

    def __init__(self, core: SchedulerCore, *, lingering: bool) -> None:
        self.simulation = Simulation(core, lingering=lingering)
        self._shapes: dict[str, Shape] = {}
        self._nodes = 0
        for name in QUEUES:
            self.simulation.put(queue(name))
        self.simulation.put(priority_class("high", 10))
        self.simulation.put(priority_class("low", -1))
        for cpu in (4, 3):
            self.take(Node(cpu))

    @property
    def decided(self) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for intent in self.simulation.intents:
            if isinstance(intent, BindGang):
                found += [("bind", bind.name, bind.node) for bind in intent.binds]
            elif isinstance(intent, EvictPod):
                found.append(("evict", intent.name))
        return found

    def take(self, step: Step) -> None:
        match step:
            case Shape():
                self._arrive(step)
            case JobEnds(number):
                if running := self._running():
                    self._end_job(running[number % len(running)][0])
            case PodEnds(number):
                if running := self._running():
                    self._end_pod(*running[number % len(running)])
            case Node(cpu):
                self._nodes += 1
                self.simulation.put(node(f"n{self._nodes}", cpu=str(cpu)))
            case Limit(name, cpu):
                limit = {"cpu": str(cpu)}
                self.simulation.put(queue(name, capability=limit, deserved=limit))
            case Pause(seconds):
                self.simulation.advance(seconds)
        self.simulation.run()
        self._start()
        self.simulation.end_pods()
        self.simulation.run()

    def _arrive(self, shape: Shape) -> None:
        least = min(shape.least, shape.size)
        for _ in range(shape.copies):
            name = f"job{len(self._shapes)}"
            self._shapes[name] = shape
            group = {
                "in_queue": shape.queue,
                "priority_class_name": shape.priority,
                "phase": "Inqueue" if shape.admitted else "Pending",
                "min_resources": {"cpu": str(least * shape.cpu)} if least else {},
            }
            for item in gang(name, shape.size, min_member=least, group=group, cpu=str(shape.cpu)):
                self.simulation.put(item)

    def _running(self) -> list[tuple[str, str]]:
        """Job and name of every pod that has a node and has not ended."""
        return sorted(
            (name.split("-")[0], name)
            for (kind, _, name), item in self.simulation.objects.items()
            if kind == "pod" and item.spec.node_name and item.status.phase in {"Pending", "Running"}
        )

    def _start(self) -> None:
        for job, name in self._running():
            if self.simulation.get("pod", "test", name).status.phase == "Pending":
                self._put_pod(job, name, "Running")

    def _end_pod(self, job: str, name: str) -> None:
        self._put_pod(job, name, "Succeeded")

    def _put_pod(self, job: str, name: str, phase: str) -> None:
        before = self.simulation.get("pod", "test", name)
        self.simulation.put(
            pod(
                name,
                group=job,
                cpu=str(self._shapes[job].cpu),
                on=before.spec.node_name,
                phase=phase,
                ending=bool(before.metadata.deletion_timestamp),
            )
        )

    def _end_job(self, job: str) -> None:
        for place in list(self.simulation.objects):
            kind, _, name = place
            if (kind == "vcpodgroup" and name == job) or name.startswith(f"{job}-"):
                self.simulation.delete(*place)


def told(core: SchedulerCore, story: list[Step], *, lingering: bool) -> list[list[tuple[str, ...]]]:
    """What had been decided after each step."""
    found = Story(core, lingering=lingering)
    after: list[list[tuple[str, ...]]] = []
    for step in story:
        found.take(step)
        after.append(found.decided)
    return after


@given(name=st.sampled_from(sorted(CONFS)), story=stories, lingering=st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_looking_at_the_first_of_those_that_are_alike_decides_what_looking_at_each_does(
    name: str, story: list[Step], lingering: bool
):
    conf = CONFS[name]

    assert told(SchedulerCore(conf), story, lingering=lingering) == told(
        OneByOne(conf), story, lingering=lingering
    )


@given(name=st.sampled_from(sorted(CONFS)), story=stories, lingering=st.booleans())
@settings(max_examples=examples(20), deadline=None)
def test_sleeping_decides_what_looking_at_every_job_in_every_cycle_does(
    name: str, story: list[Step], lingering: bool
):
    conf = CONFS[name]

    assert told(SchedulerCore(conf), story, lingering=lingering) == told(
        Sleepless(conf), story, lingering=lingering
    )


@given(name=st.sampled_from(sorted(CONFS)), story=stories, lingering=st.booleans())
@settings(max_examples=examples(20), deadline=None)
def test_a_safety_pass_gives_nobody_anything(name: str, story: list[Step], lingering: bool):
    found = Story(SchedulerCore(CONFS[name]), lingering=lingering)

    for step in story:
        found.take(step)
        decided = found.decided
        found.simulation.safety_pass()
        assert found.decided == decided
        assert found.simulation.repaired == []
