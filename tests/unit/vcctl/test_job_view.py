"""The layout of `vcctl job view`, line by line, tabs and trailing spaces included."""

from datetime import UTC, datetime

from msgspec.structs import replace

from stromboli.api.batch import Job, JobCondition, JobSpec, JobState, JobStatus, TaskSpec
from stromboli.api.core import Event, EventSource
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import PodGroup, PodGroupCondition, PodGroupStatus
from stromboli.vcctl.job_view import job_view

NOW = datetime(2026, 11, 16, 3, 0, 0, tzinfo=UTC)

TEMPLATE = {
    "metadata": {"annotations": {"kubernetes.io/availablezone": "az1"}},
    "spec": {
        "restartPolicy": "OnFailure",
        "imagePullSecrets": [{"name": "registry"}],
        "containers": [
            {
                "name": "master",
                "image": "mpi:1",
                "command": ["/bin/sh", "-c"],
                "ports": [{"containerPort": 22, "name": "ssh"}],
                "workingDir": "/home",
                "resources": {"limits": {"cpu": "0.5"}, "requests": {"memory": "1024Mi"}},
            }
        ],
    },
}
JOB = Job(
    metadata=ObjectMeta(
        name="mpi",
        namespace="n",
        uid="u-1",
        resource_version="7",
        generation=1,
        creation_timestamp="2026-11-16T02:59:00Z",
        labels={"b": "<2>", "a": "1"},
    ),
    spec=JobSpec(
        min_available=1,
        scheduler_name="volcano",
        plugins={"ssh": (), "env": ("--a=1", "--b")},
        tasks=(TaskSpec(name="master", replicas=1, template=TEMPLATE),),
    ),
    status=JobStatus(
        state=JobState(phase="Running"),
        min_available=1,
        running=1,
        controlled_resources={"plugin-ssh": "ssh"},
        conditions=(JobCondition(status="Running", last_transition_time="2026-11-16T02:59:30Z"),),
    ),
)

VIEW = """\
Name:       \tmpi
Namespace:  \tn
Labels:     \t{"a":"1","b":"\\u003c2\\u003e"}
Annotations:\t<none>
API Version:\tbatch.volcano.sh/v1alpha1
Kind:       \tJob
Metadata:
  Creation Timestamp:\t2026-11-16 02:59:00 +0000 UTC
  Generate Name:     \t
  Generation:        \t1
  Resource Version:  \t7
  UID:               \tu-1
Spec:
  Min Available:     \t1
  Plugins:
    Env:\t[--a=1 --b]
    Ssh:\t[]
  Scheduler Name:    \tvolcano
  Tasks:
    Name:\tmaster
    Replicas:\t1
    Template:
      Metadata:
        Annotations:
          Cri . Cci . Io / Container - Type:          \t
          Kubernetes . Io / Availablezone:            \taz1
          Network . Alpha . Kubernetes . Io / Network:\t
        Creation Timestamp:\t0001-01-01 00:00:00 +0000 UTC
      Spec:
        Containers:
          Command:
            /bin/sh
            -c
          Image:\tmpi:1
          Name: \tmaster
          Ports:
            Container Port:\t22
            Name:          \tssh
          Resources:
            Limits:
              Cpu:   \t500m
              Memory:\t0
            Requests:
              Cpu:   \t0
              Memory:\t1Gi
            Working Dir:\t/home
        Image Pull Secrets:
          Name:     \tregistry
        Restart Policy:   \tOnFailure
Status:
  Running:      \t1
  Min Available:\t1
  State:
    Phase:\tRunning
  Controlled Resources:
    plugin-ssh: \tssh
  Conditions:
    Status\tTransitionTime
    Running \t2026-11-16 02:59:30 +0000 UTC \n"""


def test_a_job_is_shown_in_volcanos_layout():
    assert job_view(JOB, [], NOW) == VIEW + "Events: \t<none>"


def test_what_the_controllers_note_for_themselves_is_not_shown():
    noted = {"plugin-ssh": "ssh", "stromboli/pods-master": "0"}
    job = replace(JOB, status=replace(JOB.status, controlled_resources=noted))

    assert job_view(job, [], NOW) == VIEW + "Events: \t<none>"


def test_why_a_job_is_as_it_is_stands_below_its_phase():
    state = JobState(
        phase="Failed", reason="MaxRetryReached", message="maxRetry reached:\n  3 of 3"
    )
    lines = job_view(replace(JOB, status=JobStatus(state=state)), [], NOW).split("\n")

    assert lines[lines.index("  State:") + 1 :] == [
        "    Phase:\tFailed",
        "    Reason:\tMaxRetryReached",
        "    Message:\tmaxRetry reached: 3 of 3",
        "Events: \t<none>",
    ]


def test_events_stand_in_a_table_with_their_ages():
    once = Event(
        type="Normal",
        reason="Started",
        message=" it runs\n",
        source=EventSource(component="vc-controller-manager", host="node-1"),
        first_timestamp="2026-11-16T02:59:50Z",
    )
    often = Event(
        type="Warning",
        reason="Unschedulable",
        message="no room",
        count=3,
        first_timestamp="2026-11-16T02:50:00Z",
        last_timestamp="2026-11-16T02:59:55Z",
    )
    lines = job_view(JOB, [once, often], NOW).removeprefix(VIEW).split("\n")

    assert [[cell.rstrip() for cell in line.split("\t")] for line in lines] == [
        ["Events:"],
        ["Type", "Reason", "Age", "Form", "Message"],
        ["-------"] * 5,
        ["Normal", "Started", "10s", "vc-controller-manager, node-1", "it runs"],
        ["Warning", "Unschedulable", "5s (x3 over 10m)", "", "no room"],
    ]
    assert [len(cell) for cell in lines[1].split("\t")] == [15, 40, 30, 40, len("Message")]


def test_a_job_that_nobody_has_touched_yet_can_be_shown():
    """No status, and a template full of Go's nulls."""
    bare = Job(
        metadata=ObjectMeta(name="new"),
        spec=JobSpec(tasks=(TaskSpec(template={"metadata": None, "spec": {"containers": None}}),)),
    )
    shown = job_view(bare, [], NOW)

    assert "Status:\n  State:\n    Phase:\t\nEvents: \t<none>" in shown


def gang(phase: str, *conditions: PodGroupCondition) -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(name="mpi-u-1", creation_timestamp="2026-11-16T02:59:01Z"),
        status=PodGroupStatus(phase=phase, conditions=conditions),
    )


def unschedulable(message: str) -> PodGroupCondition:
    return PodGroupCondition(
        type="Unschedulable",
        status="True",
        reason="NotEnoughResources",
        message=message,
        last_transition_time="2026-11-16T02:59:10Z",
    )


WAITS = unschedulable(
    "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable. "
    "ClusterFull: it needs 1 cpu at once, short of 1 cpu; it goes on when running pods end"
)


def test_a_job_that_waits_says_why_and_since_when():
    shown = job_view(JOB, [], NOW, pod_group=gang("Inqueue", WAITS))

    assert shown.removeprefix(VIEW).split("\n") == [
        "  Waiting:",
        "    Reason: \tClusterFull",
        "    Message:\tit needs 1 cpu at once, short of 1 cpu; it goes on when running pods end",
        "    Since:  \t2026-11-16 02:59:10 +0000 UTC",
        "Events: \t<none>",
    ]


def test_a_job_that_runs_or_has_ended_does_not_wait_though_it_once_did():
    ended = replace(JOB, status=replace(JOB.status, state=JobState(phase="Failed")))

    assert job_view(JOB, [], NOW, pod_group=gang("Running", WAITS)) == VIEW + "Events: \t<none>"
    assert "Waiting:" not in job_view(ended, [], NOW, pod_group=gang("Pending", WAITS))


def test_a_job_that_no_scheduler_has_looked_at_says_so():
    shown = job_view(JOB, [], NOW, pod_group=gang("Pending"))

    assert "Reason: \tPendingEvaluation\n" in shown
    assert "Since:  \t2026-11-16 02:59:01 +0000 UTC" in shown


def test_the_words_of_another_scheduler_are_shown_as_they_are():
    theirs = unschedulable("3/4 tasks in gang unschedulable: pod group is not ready, 4 Pending")
    shown = job_view(JOB, [], NOW, pod_group=gang("Inqueue", theirs))

    assert "    Reason: \tNotEnoughResources\n" in shown
    assert f"    Message:\t{theirs.message}\n" in shown
