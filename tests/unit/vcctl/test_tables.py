"""The tables, byte by byte as Volcano prints them: scripts cut them at fixed places."""

import pytest

from stromboli.api.batch import Job, JobSpec, JobState, JobStatus, TaskSpec
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import (
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
)
from stromboli.vcctl.printing import human_duration, job_table, queue_table

MPI = Job(
    metadata=ObjectMeta(
        name="hello-mpi",
        namespace="team-a",
        creation_timestamp="2026-11-16T02:59:48Z",
        labels={"volcano.sh/job-type": "MPI"},
    ),
    spec=JobSpec(min_available=4, tasks=(TaskSpec(replicas=1), TaskSpec(replicas=3))),
    status=JobStatus(
        state=JobState(phase="Running"), min_available=4, running=3, succeeded=1, retry_count=2
    ),
)
NEW = Job(metadata=ObjectMeta(name="x", namespace="n", creation_timestamp="2026-01-02T00:00:00Z"))


def test_a_job_list_has_volcanos_columns_and_widths():
    assert job_table([MPI, NEW], with_namespace=False) == (
        "Name        Creation       Phase       JobType     Replicas    Min   Pending   Running   "
        "Succeeded   Failed    Unknown     RetryCount\n"
        "hello-mpi   2026-11-16     Running     MPI         4           4     0         3         "
        "1           0         0           2         \n"
        "x           2026-01-02                 Batch       0           0     0         0         "
        "0           0         0           0         "
    )


def test_a_list_of_all_namespaces_begins_with_the_namespace():
    header, row = job_table([NEW], with_namespace=True).split("\n")

    assert header.startswith("Namespace   Name   Creation       Phase")
    assert row.startswith("n           x      2026-01-02     ")


def test_an_empty_list_says_so():
    assert job_table([], with_namespace=True) == "No resources found"
    assert queue_table([], []) == "No resources found"


def test_a_queue_list_counts_the_podgroups_of_each_phase():
    def podgroup(queue: str, phase: str) -> PodGroup:
        return PodGroup(spec=PodGroupSpec(queue=queue), status=PodGroupStatus(phase=phase))

    queue = Queue(
        metadata=ObjectMeta(name="research"),
        spec=QueueSpec(weight=3, parent="root"),
        # The controllers' own counts are not what is shown.
        status=QueueStatus(state="Open", running=99),
    )
    groups = [
        podgroup("research", "Running"),
        podgroup("research", "Running"),
        podgroup("research", "Inqueue"),
        podgroup("other", "Running"),
    ]
    assert queue_table([queue], groups) == (
        "Name                     Weight  State   Parent  "
        "Inqueue Pending Running Unknown Completed\n"
        "research                 3       Open    root    "
        "1       0       2       0       0       "
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (8 * 3600 - 1, "7h59m"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400, "2y"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_ages_are_told_as_kubectl_tells_them(seconds: int, text: str):
    assert human_duration(seconds) == text
