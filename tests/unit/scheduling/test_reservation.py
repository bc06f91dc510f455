"""Backfilling: nobody who starts puts off the job that has a date, where estimates are exact."""

import heapq
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stromboli.api.timestamps import format_time
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.explain import Code
from stromboli.scheduling.plugins.reservation import Reservation
from stromboli.scheduling.session import Session
from stromboli.testkit.effort import examples
from stromboli.testkit.scheduling_scenario import objects_of
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import core_of


def conf(*others: str) -> SchedulingConf:
    names = ("gang", "predicates", *others, "reservation")
    return SchedulingConf(actions=("allocate",), tiers=(tuple(PluginConf(name) for name in names),))


@dataclass(frozen=True)
class Work:
    """A gang of equal pods, when it comes, and how long it runs, which it knows."""

    after_s: int
    pods: int
    cpu: int
    runs_s: int


works = st.builds(
    Work,
    after_s=st.integers(0, 30),
    pods=st.integers(1, 5),
    cpu=st.integers(1, 4),
    runs_s=st.integers(1, 100),
)


@dataclass
class World:
    """Pods run as long as they said, and not a second more or less."""

    sizes: list[int]
    queue_plugin: str = ""
    limit: int | None = None
    """How many cpus the queue may use."""
    simulation: Simulation = field(init=False)
    started: dict[str, float] = field(default_factory=dict[str, float])
    promised: dict[str, float] = field(default_factory=dict[str, float])
    """The first date that each job at the head was given."""
    overtaken: int = 0
    """How many started while another had a date."""

    def __post_init__(self) -> None:
        core = SchedulerCore(conf(self.queue_plugin) if self.queue_plugin else conf())
        self.simulation = Simulation(core)
        self._listen(next(one for one in core._panel if isinstance(one, Reservation)))
        nodes = {f"n{number}": {"cpu": cpu} for number, cpu in enumerate(self.sizes)}
        for item in objects_of({"nodes": nodes, "queues": self._queues}):
            self.simulation.put(item)

    @property
    def _queues(self) -> dict[str, Any]:
        limits = {} if self.limit is None else {"capability": {"cpu": self.limit}}
        return {"default": limits}

    def live(self, works: list[Work]) -> None:
        begin = self.simulation.now
        events: list[tuple[float, int, Any]] = []
        at = begin
        for number, work in enumerate(works):
            at += work.after_s
            heapq.heappush(events, (at, number, work))
        while events:
            now = events[0][0]
            self.simulation.now = now
            while events and events[0][0] == now:
                _, number, what = heapq.heappop(events)
                if isinstance(what, Work):
                    self._comes(number, what, now)
                else:
                    self._set_phase(what, "Succeeded", now)
            self.simulation.run()
            for name in self._began(now):
                number = int(name.removeprefix("job"))
                heapq.heappush(events, (now + works[number].runs_s, number, name))
            self.simulation.run()

    def _comes(self, number: int, work: Work, now: float) -> None:
        group = {
            "min": work.pods,
            "created": _text(now),
            "annotations": {"stromboli.sh/running-estimate": f"{work.runs_s}s"},
            "pods": {f"job{number:03}": {"count": work.pods, "cpu": work.cpu, "memory": 0}},
        }
        for item in objects_of({"queues": self._queues, "groups": {f"job{number:03}": group}}):
            self.simulation.put(item)

    def _listen(self, plugin: Reservation) -> None:
        promise = plugin._promise

        def heard(session: Session, key: tuple[str, str]) -> Any:
            date = promise(session, key)
            if date is not None:
                self.promised.setdefault(key[1], date.at)
                assert date.at <= self.promised[key[1]]
            return date

        plugin._promise = heard

    def _began(self, now: float) -> list[str]:
        bound = {name.rpartition("-")[0] for _, name in self.simulation.binds}
        new = sorted(bound - set(self.started))
        for name in new:
            self.started[name] = now
            self._set_phase(name, "Running", now)
            waiting = [head for head in self.promised if head not in self.started]
            self.overtaken += bool(waiting)
        return new

    def _set_phase(self, job: str, phase: str, now: float) -> None:
        pods = [
            item
            for (kind, _, name), item in list(self.simulation.objects.items())
            if kind == "pod" and name.rpartition("-")[0] == job
        ]
        for pod in pods:
            status = replace(pod.status, phase=phase)
            if phase == "Running":
                status = replace(status, start_time=_text(now))
            self.simulation.put(replace(pod, status=status))


def _text(moment: float) -> str:
    return format_time(datetime.fromtimestamp(moment, UTC))


def fits(work: Work, sizes: list[int]) -> bool:
    return sum(size // work.cpu for size in sizes) >= work.pods


@pytest.mark.parametrize(
    ("queue_plugin", "part"), [("", None), ("proportion", 1.0), ("capacity", 0.7)]
)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4), works=st.lists(works, max_size=12)
)
@example(  # one that ends in time has begun since the job at the head was refused
    sizes=[3, 4, 1, 1],
    works=[
        Work(after_s=0, pods=1, cpu=1, runs_s=80),
        Work(after_s=20, pods=1, cpu=1, runs_s=1),
        Work(after_s=25, pods=2, cpu=3, runs_s=1),
        Work(after_s=15, pods=1, cpu=1, runs_s=1),
        Work(after_s=0, pods=1, cpu=1, runs_s=21),
        Work(after_s=0, pods=5, cpu=1, runs_s=1),
    ],
)
@settings(max_examples=examples(30), deadline=None)
def test_a_job_with_a_date_starts_on_that_date_or_before(
    queue_plugin: str, part: float | None, sizes: list[int], works: list[Work]
):
    limit = None if part is None else max(1, int(sum(sizes) * part))
    most = sum(sizes) if limit is None else limit
    possible = [work for work in works if fits(work, sizes) and work.pods * work.cpu <= most]
    world = World(sizes, queue_plugin, limit)

    world.live(possible)

    assert len(world.started) == len(possible)
    late = {
        name: (world.started[name], date)
        for name, date in world.promised.items()
        if world.started[name] > date
    }
    assert late == {}


def test_a_small_job_goes_where_the_large_one_will_not_sit():
    """In the whole cluster enough would be left over, but not on the node where the job can go."""
    world = World([4, 4])
    works = [
        Work(after_s=0, pods=1, cpu=4, runs_s=100),
        Work(after_s=0, pods=1, cpu=2, runs_s=50),
        Work(after_s=0, pods=1, cpu=4, runs_s=10),
        Work(after_s=0, pods=1, cpu=2, runs_s=1000),
        Work(after_s=0, pods=1, cpu=2, runs_s=50),
    ]

    world.live(works)

    start = world.started["job000"]
    assert world.promised["job002"] == start + 50
    assert world.started["job002"] == start + 50
    assert world.started["job004"] == start
    assert world.started["job003"] > start


def test_a_job_that_waits_for_its_queue_has_a_date_too():
    world = World([8], "capacity", limit=4)
    works = [
        Work(after_s=0, pods=1, cpu=2, runs_s=50),
        Work(after_s=0, pods=1, cpu=4, runs_s=10),
        Work(after_s=0, pods=1, cpu=2, runs_s=1000),
        Work(after_s=0, pods=1, cpu=2, runs_s=50),
    ]

    world.live(works)

    start = world.started["job000"]
    assert world.started["job001"] == world.promised["job001"] == start + 50
    assert world.started["job003"] == start
    assert world.started["job002"] > start + 50


def test_a_job_that_would_put_off_another_waits_for_that_one():
    """No pod of its own queue has to end for it: the room is free, and kept."""
    simulation = Simulation(SchedulerCore(conf()))
    running = {
        "min": 1,
        "phase": "Running",
        "annotations": {"stromboli.sh/running-estimate": "10m"},
        "pods": {"r": {"node": "n1", "cpu": 2, "started": "2030-01-01T00:00:00Z"}},
    }
    large = {"min": 1, "pods": {"large": {"cpu": 4}}}
    long = {"min": 1, "pods": {"long": {"cpu": 1}}}
    groups = {"running": running, "a-large": large, "b-long": long}
    for item in objects_of({"nodes": {"n1": {"cpu": 4, "memory": "8G"}}, "groups": groups}):
        simulation.put(item)

    simulation.run()
    why = core_of(simulation).reasons()["test", "b-long"]

    assert why.code is Code.RESERVED_FOR
    assert "which should start in" in why.sentence
    assert why.text.endswith(
        "it goes on when the job that the room is kept for starts or goes, or a node is added"
    )
