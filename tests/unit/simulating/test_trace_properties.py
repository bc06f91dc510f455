"""Whatever a trace says: time goes on, nodes hold what they can, gangs are whole, all ends."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stromboli.api.core import Pod
from stromboli.api.meta import KubeObject
from stromboli.scheduling.conf_file import DEFAULT_CONF_FILE, read_conf
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.figures import figures_of
from stromboli.simulating.manifests import Source
from stromboli.simulating.running import Run, run_trace
from stromboli.simulating.trace_file import read_traces
from stromboli.testkit.effort import examples

pytestmark = pytest.mark.timeout(240)

CPUS = 4
EVICTING = """
actions: "enqueue, allocate, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""

jobs = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 60),
            "duration": st.integers(0, 40),
            "replicas": st.integers(1, 3),
            "requests": st.fixed_dictionaries({"cpu": st.integers(1, CPUS)}),
            "queue": st.sampled_from(["a", "b"]),
            "priority": st.sampled_from(["low", "high"]),
        },
        optional={"min": st.just(1), "estimate": st.integers(1, 60)},
    ),
    min_size=1,
    max_size=6,
)
traces = st.fixed_dictionaries(
    {
        "nodes": st.integers(1, 3).map(lambda n: [{"name": "n", "count": n, "cpu": CPUS}]),
        "queues": st.just([{"name": "a", "weight": 3}, {"name": "b"}]),
        "priorities": st.just([{"name": "low", "value": 1}, {"name": "high", "value": 9}]),
        "jobs": jobs,
    }
)


class Witness:
    """Looks at every change of the cluster, and at the whole of it whenever time has passed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.moment = cluster.now
        cluster.watchers.append(self.saw)

    def saw(
        self, now: float, _kind: str, _before: KubeObject | None, after: KubeObject | None
    ) -> None:
        assert now >= self.moment
        self.moment = now
        if isinstance(after, Pod) and after.spec.node_name:
            self.check_node(after.spec.node_name)

    def check_node(self, node: str) -> None:
        taken = sum(
            int(pod.spec.containers[0].resources.requests["cpu"])
            for pod in self.pods()
            if pod.spec.node_name == node and pod.status.phase not in {"Succeeded", "Failed"}
        )
        assert taken <= CPUS

    def pods(self) -> list[Pod]:
        objects = self.cluster.objects.items()
        return [item for (kind, _, _), item in objects if kind == "pod"]


def run(trace: dict[str, Any], conf: str) -> Run:
    cluster = Cluster(read_conf(conf), runs_for=lambda _: None)
    text = msgspec.json.encode(trace).decode()
    read = read_traces([Source("trace.json", text)], cluster.objects.values())
    Witness(cluster)
    return run_trace(read, cluster)


def fits_alone(job: dict[str, Any], nodes: int) -> bool:
    """Of pods of one size, as many fit as on one node, times nodes."""
    least = job.get("min", job["replicas"])
    return least <= nodes * (CPUS // job["requests"]["cpu"])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces)
def test_every_job_that_fits_finishes_gangs_are_whole_and_no_node_is_overcommitted(
    trace: dict[str, Any],
):
    nodes = trace["nodes"][0]["count"]
    found = run(trace, DEFAULT_CONF_FILE)
    report = figures_of(found)

    for number, job in enumerate(trace["jobs"]):
        record = found.books.jobs["default", f"job-{number}"]
        assert (record.finished_s is not None) == fits_alone(job, nodes)
        if record.started_s is not None and record.finished_s is not None:
            assert job["at"] <= record.started_s
            assert record.finished_s >= record.started_s + job["duration"]
    assert report.in_vain.before_start == 0
    assert report.in_vain.pods_at_end == 0
    assert found.books.timeline.crippled.moments == []
    assert report.evictions.pods == 0


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trace=traces)
def test_the_same_trace_gives_the_same_report_also_where_pods_are_evicted(trace: dict[str, Any]):
    first, second = run(trace, EVICTING), run(trace, EVICTING)

    assert figures_of(first) == figures_of(second)
    assert first.books.timeline == second.books.timeline
    assert figures_of(first).in_vain.before_start == 0


def test_a_job_does_not_take_room_that_would_be_taken_back_at_once():
    """Priorities order the jobs, and shares of a later tier would let the lesser one take."""
    trace: dict[str, Any] = {
        "nodes": [{"name": "n", "count": 2, "cpu": CPUS}],
        "queues": [{"name": "a"}],
        "priorities": [{"name": "low", "value": 1}, {"name": "high", "value": 9}],
        "jobs": [
            {"at": 0, "duration": 9, "replicas": 1, "requests": {"cpu": 1}, "priority": "low"},
            {
                "at": 0,
                "duration": 5,
                "replicas": 2,
                "min": 1,
                "requests": {"cpu": 4},
                "priority": "high",
            },
        ],
    }
    for job in trace["jobs"]:
        job["queue"] = "a"
    found = run(trace, EVICTING)

    assert figures_of(found).evictions.pods == 0
    assert found.books.jobs["default", "job-0"].finished_s == 14


def test_a_queue_keeps_what_it_deserves_whichever_tier_says_so():
    """Gangs, of the first tier, would give up what shares, of the second, do not.

    One queue has the three quarters that it deserves; the other, below its quarter, finds no node.
    """
    nodes = [{"name": "n", "count": 2, "cpu": CPUS}]
    a = {"queue": "a", "priority": "low", "requests": {"cpu": 3}}
    b = {"queue": "b", "priority": "high", "requests": {"cpu": 2}}
    trace: dict[str, Any] = {
        "nodes": nodes,
        "queues": [{"name": "a", "weight": 3}, {"name": "b"}],
        "priorities": [{"name": "low", "value": 1}, {"name": "high", "value": 9}],
        "jobs": [
            {**a, "at": 0, "duration": 9, "replicas": 2, "min": 1},
            {**b, "at": 1, "duration": 5, "replicas": 1},
        ],
    }
    found = run(trace, EVICTING)

    assert figures_of(found).evictions.pods == 0
