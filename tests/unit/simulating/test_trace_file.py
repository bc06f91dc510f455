"""Traces are read whole or refused whole, with everything that is wrong in them."""

import pytest

from stromboli.api.batch import Job
from stromboli.api.core import Node, PriorityClass
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import Queue
from stromboli.api.wellknown import RUN_SECONDS
from stromboli.simulating.manifests import Source
from stromboli.simulating.trace import BadTrace, Trace
from stromboli.simulating.trace_file import read_traces
from stromboli.testkit.scheduling_objects import node

NODES = "nodes: [{name: n, count: 2, cpu: 4, memory: 8Gi}]\n"


def read(text: str, name: str = "trace.yaml", *others: KubeObject) -> Trace:
    return read_traces([Source(name, text)], others)


def problems(text: str, name: str = "trace.yaml") -> list[str]:
    with pytest.raises(BadTrace) as refused:
        read(text, name)
    return [str(problem) for problem in refused.value.problems]


def job(trace: Trace, number: int = 0) -> Job:
    return trace.arrivals[number].job


def test_a_job_in_short_is_a_whole_job_with_its_run_time_on_the_pods():
    trace = read(
        NODES
        + """
queues: [{name: research, weight: 3}]
priorities: [{name: high, value: 1000}]
jobs:
  - name: train
    at: 1m30s
    duration: 10m
    estimate: 15m
    queue: research
    priority: high
    replicas: 4
    min: 2
    requests: {cpu: 500m, memory: 1Gi, gpu: 1}
"""
    )

    (task,) = job(trace).spec.tasks
    (container,) = task.template["spec"]["containers"]
    assert trace.arrivals[0].at_s == 90
    assert (task.replicas, job(trace).spec.min_available) == (4, 2)
    assert (job(trace).spec.queue, job(trace).spec.priority_class_name) == ("research", "high")
    assert job(trace).spec.running_estimate == "15m0s"
    assert task.template["metadata"]["annotations"] == {RUN_SECONDS: "600"}
    assert container["resources"]["requests"] == {
        "cpu": "500m",
        "memory": "1Gi",
        "nvidia.com/gpu": "1",
    }


def test_what_is_there_from_the_beginning_stands_in_the_trace_too():
    trace = read(
        NODES + "queues: [{name: q, weight: 2, capability: {cpu: 3}}]\n"
        "priorities: [{name: high, value: 7}]\njobs: [{duration: 1}]\n"
    )

    items = [one.item for one in trace.objects]
    nodes = [item for item in items if isinstance(item, Node)]
    (queue,) = [item for item in items if isinstance(item, Queue)]
    (high,) = [item for item in items if isinstance(item, PriorityClass)]
    assert [item.metadata.name for item in nodes] == ["n-0", "n-1"]
    assert nodes[0].status.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert (queue.spec.weight, queue.spec.capability) == (2, {"cpu": "3"})
    assert high.value == 7


def test_count_and_every_repeat_a_job():
    trace = read(NODES + "jobs: [{name: j, at: 10, duration: 1, count: 3, every: 1m}]")

    assert [(a.at_s, a.job.metadata.name) for a in trace.arrivals] == [
        (10, "j-0"),
        (70, "j-1"),
        (130, "j-2"),
    ]


def test_tasks_have_their_own_run_times_and_one_may_run_until_the_job_ends():
    trace = read(
        NODES
        + """
jobs:
  - name: tf
    duration: 60
    tasks:
      - {name: ps, replicas: 1, duration: forever, requests: {cpu: 1}}
      - {name: worker, replicas: 2, min: 1}
"""
    )

    ps, worker = job(trace).spec.tasks
    assert "metadata" not in ps.template
    assert worker.template["metadata"]["annotations"] == {RUN_SECONDS: "60"}
    assert worker.min_available == 1
    assert job(trace).spec.min_available == 3


def test_a_manifest_is_taken_whole_and_gets_the_duration_of_the_trace_where_it_has_none():
    trace = read(
        NODES
        + """
jobs:
  - at: 5
    duration: 30
    job:
      apiVersion: batch.volcano.sh/v1alpha1
      kind: Job
      metadata: {name: mine}
      spec:
        minAvailable: 1
        policies: [{event: PodEvicted, action: RestartJob}]
        tasks:
          - {name: a, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}
          - name: b
            replicas: 1
            template:
              metadata: {annotations: {stromboli.sh/run-seconds: "7"}}
              spec: {containers: [{name: c, image: i}]}
"""
    )

    a, b = job(trace).spec.tasks
    assert job(trace).metadata.name == "mine"
    assert job(trace).spec.policies[0].action == "RestartJob"
    assert a.template["metadata"]["annotations"] == {RUN_SECONDS: "30"}
    assert b.template["metadata"]["annotations"] == {RUN_SECONDS: "7"}


def test_a_table_from_elsewhere_and_a_cluster_make_one_trace():
    table = (
        "at;duration;name;replicas;cpu;nvidia.com/gpu;_user\n"
        "2030-01-31T08:00:10Z;1h;later;2;1;1;ada\n"
        "\n"
        '2030-01-31T08:00:00Z;60;"first";;500m;;\n'
    )
    trace = read_traces([Source("cluster.yaml", NODES), Source("jobs.csv", table)])

    assert [(a.at_s, a.job.metadata.name, a.line) for a in trace.arrivals] == [
        (0, "first", 4),
        (10, "later", 2),
    ]
    (task,) = job(trace, 1).spec.tasks
    (container,) = task.template["spec"]["containers"]
    assert task.replicas == 2
    assert container["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": "1"}


def test_json_is_read_too():
    trace = read(
        '{\t"nodes": [{"name": "n"}],\n\t"jobs": [{"duration": 5, "requests": {"cpu": 1}}]}',
        "trace.json",
    )

    assert job(trace).metadata.name == "job-0"


def test_nodes_may_come_from_elsewhere():
    assert read("jobs: [{duration: 1}]", "trace.yaml", node("n1")).arrivals


def test_everything_that_is_wrong_is_told_at_once_with_line_and_field():
    found = problems(
        """nodes:
  - {name: n, cpuu: 4}
jobs:
  - name: Train
    at: soon
    duration: 10m
    replicas: -1
  - duration: 1
    requests:
      cpu: lots
  - replicas: 2
  - {duration: 1, tasks: [{name: a}], replicas: 3}
"""
    )

    assert found == [
        (
            "trace.yaml:2: nodes[0].cpuu: is not known; expected one of name, count, cpu, memory, "
            "gpu, pods, others, labels, taints (did you mean 'cpu'?)"
        ),
        (
            "trace.yaml:4: jobs[0].name: is 'Train', expected lower case letters, digits and "
            "dashes, at most 63"
        ),
        (
            "trace.yaml:5: jobs[0].at: is 'soon', expected a number of seconds, or a duration such "
            "as 90s or 1h30m, or a moment such as 2030-01-31T08:00:00Z"
        ),
        "trace.yaml:7: jobs[0].replicas: is -1, expected a whole number from 1 to 1000000",
        (
            "trace.yaml:10: jobs[1].requests.cpu: bad quantity 'lots': expected a number with an "
            "optional suffix: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 "
            "(examples: 500m, 1.5Gi, 12e6)"
        ),
        "trace.yaml:11: jobs[2].duration: is missing: say how long it runs, or `forever`",
        "trace.yaml:12: jobs[3].replicas: stands beside `tasks`: say it for each task",
    ]


def test_every_bad_row_of_a_table_is_told():
    found = problems("at,duration,replicas\n0,1,1\nx,1,1\n0,,1\n0,1,1,1\n", "jobs.csv")

    assert [line.split(":")[1:3] for line in found] == [
        ["3", " at"],
        ["4", " duration"],
        ["5", " has 4 cells, expected 3 as in the header"],
    ]


def test_a_header_says_what_its_columns_mean():
    found = problems("at,cpus,at\n0,1,0\n", "jobs.csv")

    assert [line.split(":")[2] for line in found] == [" 'cpus'", " at", " duration"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("[]", "expected a mapping"),
        ("jobs: [", "not YAML"),
        ("jobs: {a: 1}", "expected a list"),
        ("a: &a [*a]", "nested more than 64 deep"),
        (NODES + "nodes: []", "the key 'nodes' is there twice"),
        (NODES + "jobs: [{duration: 1, queue: nowhere}]", "'nowhere' is not there"),
        (NODES + "jobs: [{duration: 1, priority: high}]", "'high' is not there"),
        (NODES + "jobs: [{duration: 1, name: j}, {duration: 1, name: j}]", "there already"),
        (NODES + "jobs: [{duration: 1, every: 5}]", "`every` says how far apart"),
        (NODES + "jobs: [{duration: 1, at: 2030-01-31T08:00:00Z}, {duration: 1}]", "one way"),
        (NODES + "jobs: [{duration: 1, at: 2030-13-31T08:00:00Z}]", "bad timestamp"),
        (NODES + "jobs: [{duration: 1, job: {kind: Pod}}]", "expected a batch.volcano.sh"),
        (NODES + "jobs: [{duration: 1, queue: q, job: {}}]", "stands beside `job`"),
        (NODES + "jobs: [{duration: 1, job: {spec: {tasks: 3}}}]", "cannot read this as a Job"),
        (NODES + "jobs: [{duration: 1, requests: {cpu: -1}}]", "expected zero or more"),
        (NODES + "jobs: [{duration: .nan}]", "expected a number of seconds"),
        (NODES, "jobs: there are none"),
        ("jobs: [{duration: 1}]", "nodes: there are none"),
        (NODES + NODES.replace("nodes", "queues"), "queues[0].count: is not known"),
        ("nodes: [{name: n}, {name: n}]\njobs: [{duration: 1}]", "the Node 'n' is there twice"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str):
    assert any(said in problem for problem in problems(text))


def test_very_many_problems_are_counted_not_printed():
    rows = "".join("x,1\n" for _ in range(100))
    with pytest.raises(BadTrace, match="and 60 more"):
        read(f"at,duration\n{rows}", "jobs.csv")


def test_a_mapping_may_build_on_another_one():
    trace = read(
        NODES
        + """
jobs:
  - &small {name: a, duration: 5, requests: {cpu: 1}}
  - {<<: *small, name: b}
"""
    )

    assert [a.job.metadata.name for a in trace.arrivals] == ["a", "b"]
