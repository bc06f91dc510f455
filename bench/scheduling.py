"""How fast the scheduler's core decides, with everything that a decision costs in its process.

Timed are the decoding of the facts (as they lie on the bus) of every PodGroup and pod, the cycle
itself with its explanations, and the encoding of the binds. The nodes are known before. No bus and
no API server take part: those are other figures.
"""

import gc
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import chain

import msgspec

from bench.core_driving import Driver, packed
from bench.core_objects import (
    CONFS,
    GPU,
    Gangs,
    asking_for,
    gang,
    gangs_of,
    network_of,
    nodes_of,
    queues_of,
    running,
)
from bench.figures import NotMeasured, Row, Run, Table
from bench.servers import rss_bytes
from bench.workload_files import load_workload
from stromboli.api.meta import KubeObject
from stromboli.runtime.collecting import collect_rarely
from stromboli.testkit.scheduling_objects import node, pod, queue

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "scheduling"
QUESTION = "How many pods per second does the scheduler's core place?"
_ENDED = 8
"""Pods that end, one after the other, while others wait."""


class GrowthBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    jobs: int
    size: int


class ClusterSize(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    pods: int
    groups: int


class Reclaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    gpus: int
    wanted: int
    """Nodes that the other queue wants back, all GPUs of each."""


class Backlog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    waiting: list[int]
    """Jobs that are alike and wait on a full cluster."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    repeats: int
    workloads: list[Gangs]
    hopeless: int
    backlog: Backlog
    growth: list[int]
    growth_base: GrowthBase
    session: ClusterSize
    reclaim: Reclaim
    start: ClusterSize


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    collect_rarely()  # as the service does
    # First, because memory that was used and freed before would not be counted again.
    run.say(f"starting with {workload.start.pods:,} pods")
    yield _start(workload.start)
    rows: list[Row] = []
    for gangs in workload.workloads:
        run.say(f"{gangs.name} on {workload.nodes:,} nodes")
        rows.append(_row(gangs, workload.nodes, workload.repeats))
    yield Table(
        title=f"{workload.nodes:,} nodes, everything pending at once",
        rows=rows,
        notes=["Facts decoded, decided on, explained; binds encoded. Median and best of runs."],
    )
    run.say(f"a fresh job beside {workload.hopeless:,} that can't run")
    yield _hopeless(workload)
    run.say(f"a pod ends while up to {max(workload.backlog.waiting):,} jobs wait")
    yield _backlog(workload.backlog)
    run.say("growth")
    yield _growth(workload)
    run.say("opening a session")
    yield _session(workload.session)
    run.say(f"reclaiming {workload.reclaim.wanted} of {workload.reclaim.nodes} nodes")
    yield _reclaim(workload.reclaim, workload.repeats)


def _row(gangs: Gangs, nodes: int, repeats: int) -> Row:
    pods = gangs.jobs * gangs.size
    seconds: list[float] = []
    for _ in range(repeats):
        driver = _with_nodes(gangs, nodes)
        seconds.append(driver.placed_in(list(packed(gangs_of(gangs))), expect=pods))
    return {
        "workload": gangs.name,
        "pods": pods,
        "conf": gangs.conf,
        "median s": statistics.median(seconds),
        "pods/s": pods / statistics.median(seconds),
        "pods/s (best)": pods / min(seconds),
    }


def _with_nodes(gangs: Gangs, nodes: int) -> Driver:
    driver = Driver(CONFS[gangs.conf])
    network = network_of(nodes) if gangs.conf == "topology" else ()
    driver.know(chain(nodes_of(nodes, tainted=gangs.mixed), network, queues_of(gangs)))
    driver.begin()
    driver.settle()
    return driver


def _hopeless(workload: Workload) -> Table:
    """What a job that can run costs when many wait that can't."""
    rows: list[Row] = []
    for conf in ("helm", "evicting"):
        alone = 0.0
        for why, hopeless, cpu in (
            ("", 0, ""),
            ("larger than any node", workload.hopeless, "100"),
            ("lack room", workload.hopeless, "60"),
        ):
            driver = _with_nodes(Gangs(name="", jobs=1, size=1, conf=conf), workload.nodes)
            driver.know(_one_on_each(workload.nodes))
            for number in range(hopeless):
                driver.know(gang(f"stuck-{number}", 1, cpu=cpu))
            driver.decide()
            seconds = [
                driver.placed_in(list(packed(gang(f"fresh-{n}", 4))), expect=4) for n in range(10)
            ]
            median = statistics.median(seconds) * 1000
            alone = alone or median
            stranger = pod("stranger", on="node-00001", phase="Running", scheduler="default")
            driver.know([stranger])
            driver.forget(stranger)
            rows.append(
                {
                    "actions": " ".join(CONFS[conf].actions),
                    "pending before": hopeless,
                    "why": why,
                    "median ms": median,
                    "worst ms": max(seconds) * 1000,
                    "times": median / alone,
                    "cycle when a pod ends ms": _timed(driver.decide) * 1000,
                }
            )
    return Table(
        title="A gang of 4 that fits, beside jobs that fit nowhere",
        rows=rows,
        notes=[
            "When a pod ends, of jobs that are alike and lack room the first is looked at again."
        ],
    )


def _backlog(size: Backlog) -> Table:
    """A full cluster, many jobs that wait for a place, and one pod that ends."""
    rows: list[Row] = []
    for conf in ("helm", "evicting"):
        for waiting in size.waiting:
            driver = _with_nodes(Gangs(name="", jobs=1, size=1, conf=conf), size.nodes)
            old = [
                list(running(f"old-{n:05}", [f"node-{n:05}"], cpu="64")) for n in range(size.nodes)
            ]
            driver.know(chain.from_iterable(old))
            driver.settle()
            for number in range(waiting):
                driver.know(gang(f"waits-{number:05}", 1, cpu="64"))
            driver.decide()
            driver.settle()
            seconds: list[float] = []
            for ended in range(_ENDED):
                for item in old[ended]:
                    driver.forget(item)
                gc.collect()
                before, started = driver.bound, time.process_time()
                driver.decide()
                seconds.append(time.process_time() - started)
                if driver.bound - before != 1:
                    raise RuntimeError(f"one pod ended, {driver.bound - before} were bound")
            rows.append(
                {
                    "actions": " ".join(CONFS[conf].actions),
                    "waiting": waiting,
                    "median ms": statistics.median(seconds) * 1000,
                    "worst ms": max(seconds) * 1000,
                }
            )
    return Table(
        title=f"One pod ends on {size.nodes:,} full nodes while jobs that are alike wait",
        rows=rows,
        notes=["Processor time of the cycle after it."],
    )


def _one_on_each(nodes: int) -> Iterator[KubeObject]:
    for index in range(nodes):
        yield from running(f"old-{index:05}", [f"node-{index:05}"], cpu="8")


def _growth(workload: Workload) -> Table:
    base = workload.growth_base
    rows: list[Row] = []
    for factor in workload.growth:
        for what, nodes, jobs in (
            ("nodes", base.nodes * factor, base.jobs),
            ("pods", base.nodes * max(workload.growth), base.jobs * factor),
        ):
            gangs = Gangs(name="", jobs=jobs, size=base.size)
            pods = jobs * base.size
            took = min(
                _with_nodes(gangs, nodes).placed_in(list(packed(gangs_of(gangs))), expect=pods)
                for _ in range(2)
            )
            rows.append({"grows": what, "times": factor, "nodes": nodes, "pods": pods, "s": took})
    rows.sort(key=lambda row: (str(row["grows"]), int(row["times"])))
    first = {str(row["grows"]): float(row["s"]) for row in reversed(rows)}
    for row in rows:
        row["times the cost"] = float(row["s"]) / first[str(row["grows"])]
    return Table(title="What twice as much costs", rows=rows, notes=["The better of two runs."])


def _session(size: ClusterSize) -> Table:
    driver, read_s, rss = _read(size)
    driver.begin()
    driver.settle()
    cycles = [
        driver.placed_in(list(packed(gang(f"new-{number}", 1))), expect=1) for number in range(20)
    ]
    strangers = [
        pod(f"stranger-{number}", on="node-00001", phase="Running", scheduler="default")
        for number in range(20)
    ]
    driver.know(strangers)
    driver.settle()
    openings: list[float] = []
    for stranger in strangers:
        # Room comes free and nobody wants it: the cycle opens, and has nothing to do.
        driver.forget(stranger)
        openings.append(_timed(driver.decide))
    row: Row = {
        "nodes": size.nodes,
        "pods": size.pods,
        "facts read s": read_s,
        "RSS MiB": rss / 2**20,
        "opening a session ms": statistics.median(openings) * 1000,
        "cycle for one new pod ms": statistics.median(cycles) * 1000,
    }
    return Table(title="A cluster that is full of running pods", rows=[row])


def _reclaim(size: Reclaim, repeats: int) -> Table:
    """One queue has borrowed the whole cluster; the other wants its part back, as one gang."""
    seconds: list[float] = []
    evicted = 0
    for _ in range(repeats):
        driver = Driver(CONFS["reclaiming"])
        driver.know(_borrowed(size))
        driver.begin()
        driver.settle()
        wanted = asking_for(gang("owner", size.wanted, "owner"), {"cpu": "1", GPU: str(size.gpus)})
        facts = list(packed(wanted))
        gc.collect()
        started = time.perf_counter()
        driver.tell(facts)
        driver.decide()
        seconds.append(time.perf_counter() - started)
        evicted = driver.evicted
        if evicted != size.wanted * size.gpus:
            raise RuntimeError(f"{size.wanted * size.gpus} evictions expected, {evicted} asked for")
    row: Row = {
        "nodes": size.nodes,
        "nodes reclaimed": size.wanted,
        "pods evicted": evicted,
        "median s": statistics.median(seconds),
        "best s": min(seconds),
    }
    return Table(title=f"Reclaiming whole nodes of {size.gpus} GPUs on a full cluster", rows=[row])


def _borrowed(size: Reclaim) -> Iterator[KubeObject]:
    half = {GPU: str(size.nodes * size.gpus // 2)}
    yield queue("root")
    yield queue("default")
    yield queue("borrower", deserved=half)
    yield queue("owner", deserved=half)
    for index in range(size.nodes):
        yield node(f"node-{index:05}", cpu="64", nvidia_com__gpu=str(size.gpus))
        names = [f"node-{index:05}"] * size.gpus
        pods = running(f"old-{index:05}", names, "borrower", least=0)  # can do with fewer
        yield from asking_for(pods, {"cpu": "1", GPU: "1"})


def _start(size: ClusterSize) -> Table:
    """A new leader: everything that runs, then a gang that waits."""
    driver, read_s, rss = _read(size)
    facts = list(packed(gang("first", 4)))
    started = time.perf_counter()
    driver.tell(facts)
    driver.begin()
    first_s = time.perf_counter() - started
    if driver.bound != len(facts) - 1:
        raise RuntimeError(f"the first gang should have been bound, {driver.bound} pods were")
    row: Row = {
        "nodes": size.nodes,
        "pods": size.pods,
        "podgroups": size.groups,
        "facts read s": read_s,
        "first cycle s": first_s,
        "to the first bind s": read_s + first_s,
        "RSS MiB": rss / 2**20,
    }
    return Table(
        title="From the facts of a whole cluster to the first bind",
        rows=[row],
        notes=["Volcano was seen to need 8 min 17 s for such a start."],
    )


# Parts.


def _read(size: ClusterSize) -> tuple[Driver, float, int]:
    """A core that has read a cluster full of running pods, how long that took, and its memory."""
    driver = Driver(CONFS["helm"])
    before = _rss()
    read_s = 0.0
    for portion in _portions(packed(_whole_cluster(size))):
        read_s += _timed(lambda portion=portion: driver.tell(portion))
    return driver, read_s, _rss() - before


def _whole_cluster(size: ClusterSize) -> Iterator[KubeObject]:
    yield from nodes_of(size.nodes)
    yield queue()
    pods = 0
    for number in range(size.groups):
        until = (number + 1) * size.pods // size.groups
        names = [f"node-{index % size.nodes:05}" for index in range(pods, until)]
        yield from running(f"old-{number:05}", names)
        pods = until


def _portions(facts: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Making them takes longer than reading them, so it is done apart, a part at a time."""
    portion: list[bytes] = []
    for fact in facts:
        portion.append(fact)
        if len(portion) == 10_000:
            yield portion
            portion = []
    yield portion


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _rss() -> int:
    gc.collect()
    return rss_bytes(os.getpid())
