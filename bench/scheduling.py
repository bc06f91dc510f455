"""How fast the scheduler's core decides, with everything that a decision costs in its process.

Timed are the decoding of the facts (as they lie on the bus) of every PodGroup and pod, the cycle
itself with its explanations, and the encoding of the binds. The nodes are known before. No bus and
no API server take part: those are other figures.
"""

import gc
import os
import statistics
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from bench.figures import NotMeasured, Row, Run, Table
from bench.servers import rss_bytes
from bench.workload_files import load_workload
from stromboli.api.core import Toleration
from stromboli.api.kinds import kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.projections import encode_projection
from stromboli.api.scheduling import NetworkTopologySpec
from stromboli.contracts import codec
from stromboli.contracts.facts import ObjectSeen
from stromboli.contracts.intents import BindGang
from stromboli.contracts.stimuli import FactChanged, Instruction, Probe, Ready, WakeAt, WokeUp
from stromboli.runtime.collecting import collect_rarely
from stromboli.scheduling.conf import PluginConf, SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.fact_reading import FactReader
from stromboli.testkit.scheduling_objects import hyper_node, node, pod, pod_group, queue

__all__ = ["NAME", "QUESTION", "measure"]

NAME = "scheduling"
QUESTION = "How many pods per second does the scheduler's core place?"

_NOW: Final = 1_893_456_000.0
_TOLERATED: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{what}", operator="Exists", effect="NoExecute")
    for what in ("not-ready", "unreachable")
)
_READ: Final = FactReader(SchedulingConf().scheduler_names)
_PORTION: Final = 500
_OFF: Final = {"enablePreemptable": False}
_CONFS: Final[dict[str, SchedulingConf]] = {
    "helm": SchedulingConf(
        actions=("enqueue", "allocate", "backfill"),
        tiers=(
            (PluginConf("priority"), PluginConf("gang", flags=_OFF), PluginConf("conformance")),
            (
                PluginConf("overcommit"),
                PluginConf("drf", flags=_OFF),
                PluginConf("predicates"),
                PluginConf("proportion"),
                PluginConf("nodeorder"),
                PluginConf("binpack"),
            ),
        ),
    ),
    "capacity": SchedulingConf(
        actions=("enqueue", "allocate", "backfill"),
        tiers=(
            (PluginConf("priority"), PluginConf("gang"), PluginConf("conformance")),
            (
                PluginConf("drf"),
                PluginConf("predicates"),
                PluginConf("capacity"),
                PluginConf("nodeorder"),
                PluginConf("binpack"),
            ),
        ),
    ),
}

_CONFS["topology"] = msgspec.structs.replace(
    _CONFS["helm"],
    tiers=(
        _CONFS["helm"].tiers[0],
        (*_CONFS["helm"].tiers[1], PluginConf("network-topology-aware")),
    ),
)
_RACK: Final = 10
_SPINE: Final = 100
"""Nodes in one; with `topology` there are racks, spines of racks, and one core of all spines."""


class Gangs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    jobs: int
    size: int
    queues: int = 1
    mixed: bool = False
    """A third of the jobs each with a node selector, a toleration, or neither."""
    conf: str = "helm"
    tier: int = 0
    """Each job must stand within this tier of the network."""


class GrowthBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    jobs: int
    size: int


class SessionSize(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    pods: int


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: int
    repeats: int
    workloads: list[Gangs]
    hopeless: int
    growth: list[int]
    growth_base: GrowthBase
    session: SessionSize


async def measure(run: Run) -> AsyncGenerator[Table | NotMeasured]:
    workload = load_workload(NAME, Workload, quick=run.quick)
    collect_rarely()  # as the service does
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
    run.say("growth")
    yield _growth(workload)
    run.say("opening a session")
    yield _session(workload)


# Work.


def _row(gangs: Gangs, nodes: int, repeats: int) -> Row:
    pods = gangs.jobs * gangs.size
    seconds: list[float] = []
    for _ in range(repeats):
        core = _core(gangs, nodes)
        facts = [_packed(item) for item in _gangs(gangs)]
        seconds.append(_placed_in(core, facts, expect=pods))
    return {
        "workload": gangs.name,
        "pods": pods,
        "conf": gangs.conf,
        "median s": statistics.median(seconds),
        "pods/s": pods / statistics.median(seconds),
        "pods/s (best)": pods / min(seconds),
    }


def _placed_in(core: SchedulerCore, facts: list[bytes], *, expect: int) -> float:
    gc.collect()
    started = time.perf_counter()
    _tell(core, facts)
    bound = _encoded(core.handle(WokeUp(), now=_NOW))
    took = time.perf_counter() - started
    if bound != expect:
        raise RuntimeError(f"{expect} pods should have been bound, {bound} were")
    return took


def _hopeless(workload: Workload) -> Table:
    """What a job that can run costs when many wait that can't."""
    rows: list[Row] = []
    for hopeless in (0, workload.hopeless):
        core = _core(Gangs(name="", jobs=1, size=1), workload.nodes)
        for number in range(hopeless):
            _tell(core, map(_packed, _gang(f"stuck-{number}", 1, "default", cpu="100")))
        _settle(core)
        seconds = [
            _placed_in(
                core, [_packed(item) for item in _gang(f"fresh-{n}", 4, "default")], expect=4
            )
            for n in range(50)
        ]
        rows.append(
            {
                "pending before": hopeless,
                "median ms": statistics.median(seconds) * 1000,
                "worst ms": max(seconds) * 1000,
            }
        )
    rows[1]["times"] = float(rows[1]["median ms"]) / float(rows[0]["median ms"])
    return Table(title="A gang of 4 that fits, beside jobs that fit nowhere", rows=rows)


def _growth(workload: Workload) -> Table:
    base = workload.growth_base
    rows: list[Row] = []
    for factor in workload.growth:
        for what, nodes, jobs in (
            ("nodes", base.nodes * factor, base.jobs),
            ("pods", base.nodes * max(workload.growth), base.jobs * factor),
        ):
            gangs = Gangs(name="", jobs=jobs, size=base.size)
            core = _core(gangs, nodes)
            facts = [_packed(item) for item in _gangs(gangs)]
            took = _placed_in(core, facts, expect=jobs * base.size)
            rows.append(
                {
                    "grows": what,
                    "times": factor,
                    "nodes": nodes,
                    "pods": jobs * base.size,
                    "s": took,
                }
            )
    rows.sort(key=lambda row: (str(row["grows"]), int(row["times"])))
    return Table(title="What twice as much costs", rows=rows)


def _session(workload: Workload) -> Table:
    size = workload.session
    core = SchedulerCore(_CONFS["helm"])
    before = _rss()
    started = time.perf_counter()
    _tell(core, map(_packed, (*_nodes(size.nodes), queue())))
    _tell(core, map(_packed, _running(size)))
    core.handle(Ready(), now=_NOW)
    read_s = time.perf_counter() - started
    _settle(core)
    cycles: list[float] = []
    for number in range(20):
        facts = [_packed(item) for item in _gang(f"new-{number}", 1, "default")]
        cycles.append(_placed_in(core, facts, expect=1))
    row: Row = {
        "nodes": size.nodes,
        "pods": size.pods,
        "read and first cycle s": read_s,
        "RSS MiB": (_rss() - before) / 2**20,
        "cycle for one new pod ms": statistics.median(cycles) * 1000,
    }
    return Table(title="A cluster that is full of running pods", rows=[row])


# Parts.


def _core(gangs: Gangs, nodes: int) -> SchedulerCore:
    core = SchedulerCore(_CONFS[gangs.conf])
    network = _network(nodes) if gangs.conf == "topology" else ()
    _tell(core, map(_packed, (*_nodes(nodes), *network, *_queues(gangs))))
    core.handle(Ready(), now=_NOW)
    _settle(core)
    return core


def _tell(core: SchedulerCore, facts: Iterable[bytes]) -> None:
    """As the service does: read one by one, taken in by the portion."""
    for portion in _portions(facts):
        core.handle_all([_decoded(packed) for packed in portion], now=_NOW)


def _portions(facts: Iterable[bytes]) -> Iterator[list[bytes]]:
    left = iter(facts)
    while portion := list(islice(left, _PORTION)):
        yield portion


def _settle(core: SchedulerCore) -> None:
    """Let the core do what it has to do before the clock runs."""
    for _ in range(3):
        asked = core.handle(WokeUp(), now=_NOW)
        if not any(isinstance(one, WakeAt) and one.at <= _NOW for one in asked):
            return


def _nodes(number: int) -> Iterator[KubeObject]:
    for index in range(number):
        labels = {
            "kubernetes.io/hostname": f"node-{index:05}",
            "topology.kubernetes.io/zone": f"zone-{index % 3}",
            "disk": "ssd" if index % 2 else "hdd",
        }
        yield node(f"node-{index:05}", cpu="64", memory="256Gi", labels=labels)


def _network(nodes: int) -> Iterator[KubeObject]:
    racks, spines = range(nodes // _RACK), range(nodes // _SPINE)
    for rack in racks:
        first = rack * _RACK
        inside = [f"node-{index:05}" for index in range(first, first + _RACK)]
        yield hyper_node(f"rack-{rack}", 1, nodes=inside)
    for spine in spines:
        below = [rack for rack in racks if rack * _RACK // _SPINE == spine]
        yield hyper_node(f"spine-{spine}", 2, parts=[f"rack-{rack}" for rack in below])
    yield hyper_node("core", 3, parts=[f"spine-{spine}" for spine in spines])


def _queues(gangs: Gangs) -> Iterator[KubeObject]:
    yield queue("root")
    yield queue("default")
    for index in range(1, gangs.queues):
        yield queue(f"queue-{index}")


def _queue_names(gangs: Gangs) -> list[str]:
    return ["default", *(f"queue-{index}" for index in range(1, gangs.queues))]


def _gangs(gangs: Gangs) -> Iterator[KubeObject]:
    names = _queue_names(gangs)
    for number in range(gangs.jobs):
        more: dict[str, Any] = {}
        if gangs.mixed and number % 3 == 1:
            more["node_selector"] = {"disk": "ssd"}
        elif gangs.mixed and number % 3 == 2:
            more["tolerations"] = (Toleration(key="gpu", operator="Exists"), *_TOLERATED)
        name, in_queue = f"job-{number:05}", names[number % len(names)]
        yield from _gang(name, gangs.size, in_queue, tier=gangs.tier, **more)


def _gang(
    name: str, size: int, in_queue: str, *, cpu: str = "1", tier: int = 0, **more: Any
) -> Iterator[KubeObject]:
    close = NetworkTopologySpec(mode="hard", highest_tier_allowed=tier) if tier else None
    yield pod_group(
        name, min_member=size, phase="Inqueue", in_queue=in_queue, network_topology=close
    )
    options: dict[str, Any] = {"tolerations": _TOLERATED, **more}
    for index in range(size):
        yield pod(
            f"{name}-worker-{index}",
            group=name,
            role="worker",
            cpu=cpu,
            memory="2Gi",
            labels={
                "volcano.sh/job-name": name,
                "volcano.sh/job-namespace": "test",
                "volcano.sh/queue-name": in_queue,
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": str(index),
            },
            **options,
        )


def _running(size: SessionSize) -> Iterator[KubeObject]:
    """Gangs of ten, spread over the nodes."""
    for number in range(size.pods // 10):
        name = f"old-{number:05}"
        yield pod_group(name, min_member=10, phase="Running")
        for index in range(10):
            on = f"node-{(number * 10 + index) % size.nodes:05}"
            yield pod(
                f"{name}-worker-{index}",
                group=name,
                role="worker",
                on=on,
                phase="Running",
                tolerations=_TOLERATED,
            )


def _packed(item: KubeObject) -> bytes:
    """The object as it lies on the bus."""
    metadata = item.metadata
    fact = ObjectSeen(
        kind=kind_of(item).token,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version="1",
        projection=msgspec.Raw(encode_projection(item)),
        cause="bench",
    )
    return codec.encode(fact)


def _decoded(packed: bytes) -> FactChanged:
    fact = codec.facts.decode(packed)
    if not isinstance(fact, ObjectSeen):
        raise TypeError("every fact here is of an object")
    return FactChanged(
        kind=fact.kind,
        namespace=fact.namespace,
        name=fact.name,
        uid=fact.uid,
        resource_version=fact.resource_version,
        after=_READ(fact.kind, fact.projection),
    )


def _encoded(instructions: Iterable[Instruction]) -> int:
    """Encode what travels; returns how many pods are to be bound."""
    bound = 0
    for one in instructions:
        if not isinstance(one, WakeAt | Probe):
            codec.encode(one)
        if isinstance(one, BindGang):
            bound += len(one.binds)
    return bound


def _rss() -> int:
    gc.collect()
    return rss_bytes(os.getpid())
