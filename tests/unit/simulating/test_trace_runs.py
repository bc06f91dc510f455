"""Traces on virtual time: what the figures of hand-made stories must be."""

from pathlib import Path

import pytest

from stromboli.api.batch import JobPhase
from stromboli.scheduling.conf_file import DEFAULT_CONF_FILE, read_conf
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.figures import figures_of
from stromboli.simulating.manifests import Source
from stromboli.simulating.running import Run, run_trace
from stromboli.simulating.trace import BadTrace
from stromboli.simulating.trace_file import read_traces
from stromboli.simulating.trace_report import Figures

EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"
PREEMPT = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def run(text: str, conf: str = DEFAULT_CONF_FILE, *, until_s: float = float("inf")) -> Run:
    cluster = Cluster(read_conf(conf), runs_for=lambda _: None)
    trace = read_traces([Source("trace.yaml", text)], cluster.objects.values())
    return run_trace(trace, cluster, until_s=until_s)


def figures(text: str, conf: str = DEFAULT_CONF_FILE, *, until_s: float = float("inf")) -> Figures:
    return figures_of(run(text, conf, until_s=until_s))


def example(name: str) -> str:
    return (EXAMPLES / name).read_text()


ONE_AFTER_THE_OTHER = """
nodes: [{name: n, cpu: 4}]
jobs:
  - {name: first, at: 10, duration: 100, replicas: 4, requests: {cpu: 1}}
  - {name: second, at: 20, duration: 50, replicas: 2, requests: {cpu: 1}}
"""


def test_a_job_that_finds_no_room_starts_when_the_one_before_it_ends():
    found = figures(ONE_AFTER_THE_OTHER)

    assert found.makespan_seconds == 150
    assert found.waits is not None
    assert (found.waits.p50, found.waits.max) == (0, 90)
    assert found.utilisation["cpu"].mean == pytest.approx((100 * 4 + 50 * 2) / (150 * 4), abs=1e-4)
    assert found.utilisation["cpu"].peak == 1
    assert found.jobs.completed == 2
    assert found.in_vain.before_start == 0


def test_over_time_is_the_same_as_the_mean():
    found = figures(ONE_AFTER_THE_OTHER)

    each = [interval.utilisation["cpu"] for interval in found.over_time]
    assert sum(each) / len(each) == pytest.approx(found.utilisation["cpu"].mean, abs=1e-3)
    assert (each[0], each[-1]) == (1, 0.5)
    assert found.over_time[0].waiting == 0
    assert found.over_time[10].waiting == 1


def test_a_long_story_does_not_pile_up_what_was_said():
    cluster = run(ONE_AFTER_THE_OTHER).cluster

    assert (cluster.intents, cluster.history, cluster.events) == ([], [], [])


def test_the_same_trace_gives_the_same_report():
    assert figures(example("gang-deadlock.yaml")) == figures(example("gang-deadlock.yaml"))


def test_with_gangs_all_of_the_deadlocked_jobs_finish_and_nobody_holds_room_in_vain():
    found = figures(example("gang-deadlock.yaml"))

    assert found.jobs.completed == 5
    assert found.makespan_seconds == 30 * 60
    assert (found.in_vain.before_start, found.in_vain.pods_at_end) == (0, 0)
    assert found.remarks == ()


def test_without_gangs_they_deadlock_and_the_report_says_so():
    found = figures(example("gang-deadlock.yaml"), example("without-gang.conf"))

    assert found.jobs.completed == 0
    assert found.in_vain.pods_at_end == 12
    assert found.remarks[0].startswith("deadlock: 5 jobs hold 12 pods on nodes")
    assert all(0 < job.pods_on_nodes < job.minimum == 6 for job in found.unfinished)
    assert all("ClusterFull" in job.why and "short of" in job.why for job in found.unfinished)


def test_with_a_reservation_a_large_job_starts_earlier_and_small_ones_hardly_later():
    conf = example("reservation.conf")
    without = conf.replace("  - name: reservation\n", "")
    kept, left = run(example("backfill.yaml"), conf), run(example("backfill.yaml"), without)

    def waits(of: Run, name: str) -> list[float]:
        return sorted(
            job.wait_s or 0 for job in of.books.jobs.values() if job.name.startswith(name)
        )

    assert waits(kept, "large")[0] <= 15 * 60 < 2 * 3600 < waits(left, "large")[0]
    assert waits(kept, "small")[30] == 0
    assert max(waits(kept, "small") + waits(kept, "tiny")) <= 30 * 60
    assert figures_of(kept).makespan_seconds < figures_of(left).makespan_seconds


@pytest.mark.timeout(240)
def test_a_day_of_three_teams_is_shared_by_their_weights():
    found = figures(example("mixed-day.yaml"))

    assert found.jobs.completed == found.jobs.submitted == 195
    assert found.fairness.index is not None
    assert found.fairness.index > 0.95
    shares = {name: queue.share or 0 for name, queue in found.queues.items()}
    assert shares["research"] > shares["production"] > shares["students"] > 0.1


def test_work_that_is_lost_to_an_eviction_is_counted_and_done_again():
    found = figures(
        """
nodes: [{name: n, cpu: 2}]
priorities: [{name: high, value: 100}]
jobs:
  - {name: low, duration: 100, replicas: 2, min: 1, requests: {cpu: 1}}
  - {name: urgent, at: 30, duration: 10, priority: high, requests: {cpu: 1}}
""",
        PREEMPT,
    )

    assert found.evictions.pods == 1
    assert found.evictions.jobs == 1
    assert found.evictions.wasted_pod_seconds == 30
    assert found.jobs.completed == 2
    assert found.makespan_seconds == 140


def test_a_job_that_can_never_run_is_unfinished_and_says_why():
    found = figures(
        "nodes: [{name: n, cpu: 2}]\n"
        "jobs: [{name: big, duration: 5, requests: {cpu: 3}}, {name: ok, duration: 5}]\n"
    )

    (big,) = found.unfinished
    assert (big.name, big.phase) == ("big", JobPhase.PENDING)
    assert "cpu" in big.why
    assert found.jobs.completed == 1


def test_servers_end_with_the_workers_of_their_job():
    found = run(
        """
nodes: [{name: n, cpu: 4}]
jobs:
  - duration: 60
    job:
      metadata: {name: tf}
      spec:
        minAvailable: 2
        tasks:
          - name: ps
            replicas: 1
            template:
              metadata: {annotations: {stromboli.sh/run-seconds: "1000000"}}
              spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
          - name: worker
            replicas: 1
            policies: [{event: TaskCompleted, action: CompleteJob}]
            template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}
"""
    )

    job = found.books.jobs["default", "tf"]
    assert (job.phase, job.finished_s) == (JobPhase.COMPLETED, 60)
    assert job.gang.wasted_s == 0
    assert found.books.timeline.queue("default").allocated["cpu"].last == 0


def test_a_run_can_be_cut_off_and_says_so():
    found = figures(ONE_AFTER_THE_OTHER, until_s=15)

    assert found.is_cut
    assert (found.jobs.submitted, found.jobs.not_yet_submitted) == (1, 1)
    assert found.unfinished[0].why == "it was still at work"
    assert "cut off after 15 s" in found.remarks[0]


def test_what_admission_refuses_is_told_for_all_jobs_before_anything_runs():
    with pytest.raises(BadTrace) as refused:
        run(
            """
nodes: [{name: n}]
jobs:
  - duration: 5
    job: {metadata: {name: a}, spec: {minAvailable: 5, tasks: []}}
  - duration: 5
    job: {metadata: {name: b}, spec: {minAvailable: 5, tasks: []}}
"""
        )

    assert [problem.line for problem in refused.value.problems] == [4, 6]
    assert "No task specified in job spec" in str(refused.value)


def test_queues_that_both_want_all_get_what_their_weights_say():
    found = figures(
        """
nodes: [{name: n, count: 2, cpu: 6, memory: 64Gi}]
queues:
  - {name: eng, weight: 3}
  - {name: sci, weight: 1}
jobs:
  - {name: e, queue: eng, count: 30, duration: 60, requests: {cpu: 1}}
  - {name: s, queue: sci, count: 30, duration: 60, requests: {cpu: 1}}
"""
    )

    eng, sci = found.queues["eng"].waits, found.queues["sci"].waits
    assert eng is not None
    assert sci is not None
    assert eng.p50 < sci.p50
    assert found.fairness.index is not None
    assert found.fairness.index > 0.95
