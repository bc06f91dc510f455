"""Traces in which jobs once took each other's place for ever: each ends, with few evictions."""

from typing import Any, Final, NamedTuple

import msgspec
import pytest

from stromboli.scheduling.conf_file import read_conf
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.manifests import Source
from stromboli.simulating.running import run_trace
from stromboli.simulating.trace_file import read_traces


class Restless(NamedTuple):
    """What went round in circles, and how many evictions it is worth."""

    actions: str
    tiers: str
    trace: dict[str, Any]
    evictions: int


ONE: Final = {"cpu": 1, "memory": "1Gi"}
TWO: Final = {"cpu": 2, "memory": "1Gi"}
WORK: Final = {"name": "work", "at": 0, "duration": "1h", "min": 1}
RESTLESS: Final = {
    "a pod that asks for a place alone": Restless(
        "enqueue, allocate, preempt, reclaim, backfill",
        """
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
        {
            "nodes": [{"name": "n", "count": 1, "cpu": 8, "memory": "16Gi", "pods": 2}],
            "queues": [{"name": "a"}, {"name": "b"}],
            "jobs": [
                {**WORK, "replicas": 2, "queue": "a", "requests": ONE},
                {**WORK, "name": "tiny", "at": 60, "replicas": 1, "queue": "b", "requests": {}},
            ],
        },
        evictions=1,
    ),
    "queues with the configuration of the guide": Restless(
        "enqueue, allocate, backfill, reclaim, preempt",
        """
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}]
""",
        {
            "nodes": [{"name": "n", "count": 1, "cpu": 3, "memory": "16Gi"}],
            "queues": [
                {"name": "alpha", "deserved": {"cpu": 1, "memory": "4Gi"}},
                {"name": "beta", "deserved": {"cpu": 2, "memory": "8Gi"}},
            ],
            "jobs": [
                {**WORK, "replicas": 2, "min": 1, "queue": "alpha", "requests": TWO},
                {
                    **WORK,
                    "name": "b",
                    "at": 60,
                    "replicas": 1,
                    "queue": "beta",
                    "requests": TWO,
                },
            ],
        },
        evictions=1,
    ),
    "pods of one job": Restless(
        "enqueue, allocate, preempt, backfill",
        """
- plugins: [{name: priority}]
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
""",
        {
            "nodes": [{"name": "n", "count": 1, "cpu": 3, "memory": "16Gi"}],
            "jobs": [{**WORK, "replicas": 4, "requests": ONE}],
        },
        evictions=0,
    ),
}


@pytest.mark.parametrize("name", RESTLESS)
def test_the_trace_ends_and_hardly_anybody_is_evicted(name: str):
    one = RESTLESS[name]
    cluster = Cluster(
        read_conf(f"actions: {one.actions}\ntiers:{one.tiers}"), runs_for=lambda _: None
    )
    text = msgspec.json.encode(one.trace).decode()
    read = read_traces([Source("trace.json", text)], cluster.objects.values())

    found = run_trace(read, cluster)

    assert all(record.finished_s is not None for record in found.books.jobs.values())
    assert len(cluster.evictions) <= one.evictions
