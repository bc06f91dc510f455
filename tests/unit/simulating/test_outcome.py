"""The document that a simulation comes to."""

import pytest

from stromboli.scheduling.conf_file import read_conf
from stromboli.simulating.manifests import Source
from stromboli.simulating.outcome import outcome_of
from stromboli.simulating.particulars import Evicted, particulars_of
from stromboli.simulating.simulate import load, run_cycles, run_until_idle

NODE = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 2, memory: 4Gi}}\n"
)
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: %s}
spec:
  %s
  tasks:
  - name: main
    replicas: %d
    template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}}
"""
CLASS = (
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n"
)
PREEMPT = read_conf("""
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
""")
RUNNING = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: low}
spec: {minMember: 1}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: low-%d, annotations: {scheduling.k8s.io/group-name: low}}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
LOW = [RUNNING % number for number in (0, 1)]


def sources(*texts: str) -> list[Source]:
    return [Source(f"file{number}", text) for number, text in enumerate(texts)]


def test_a_document_has_exactly_these_keys():
    cluster, _ = load(sources(NODE, JOB % ("fits", "minAvailable: 1", 1)))
    run_until_idle(cluster)

    outcome = outcome_of(cluster)

    assert list(outcome) == [
        *("binds", "pipelined", "evictions", "podgroups", "queues", "explanations")
    ]
    assert outcome["binds"] == {"default/fits-main-0": "n1"}
    (group,) = outcome["podgroups"].values()
    assert group["phase"] == "Running"
    assert outcome["queues"]["default"]["allocated"] == {"cpu": "1", "pods": "1"}
    assert outcome["queues"]["root"]["state"] == "Open"
    assert outcome["explanations"] == {}


def test_a_job_that_waits_is_explained():
    cluster, _ = load(sources(NODE, JOB % ("big", "minAvailable: 5", 5)))
    run_until_idle(cluster)

    outcome = outcome_of(cluster)

    ((name, why),) = outcome["explanations"].items()
    assert name == "default/big-0ae4aa65"
    assert why["code"] == "ExceedsMax"
    assert why["shortBy"] == {"cpu": "3"}
    assert why["ahead"] == []
    assert why["unblock"] == "a node is added or changed"
    assert why["since"] == why["lastEvaluated"] == "2030-01-01T12:00:00Z"
    assert outcome["podgroups"][name]["reason"] == "NotEnoughResources"


def test_after_some_cycles_evicted_pods_are_still_there_and_their_heirs_wait():
    urgent = JOB % ("urgent", "priorityClassName: high", 1)
    cluster, _ = load(sources(NODE, CLASS, *LOW, urgent), PREEMPT)

    run_cycles(cluster, 2)

    outcome = outcome_of(cluster)
    assert len(outcome["evictions"]) == 1
    assert outcome["pipelined"] == {"default/urgent-main-0": "n1"}
    assert outcome["binds"] == {}
    assert all(("pod", *name.split("/")) in cluster.objects for name in outcome["evictions"])


def test_when_idle_evicted_pods_are_gone_and_their_heirs_run():
    urgent = JOB % ("urgent", "priorityClassName: high", 1)
    cluster, _ = load(sources(NODE, CLASS, *LOW, urgent), PREEMPT)

    assert run_until_idle(cluster) == ""

    outcome = outcome_of(cluster)
    assert len(outcome["evictions"]) == 1
    assert outcome["pipelined"] == {}
    assert outcome["binds"] == {"default/urgent-main-0": "n1"}
    assert not any(("pod", *name.split("/")) in cluster.objects for name in outcome["evictions"])


def test_an_evicted_pod_that_its_job_makes_anew_is_listed_once_and_not_as_placed():
    cluster, _ = load(sources(NODE, CLASS, JOB % ("low", "minAvailable: 1", 2)), PREEMPT)
    run_until_idle(cluster)
    urgent, _ = load(sources(CLASS, JOB % ("urgent", "priorityClassName: high", 1)))
    cluster.put(urgent.get("vcjob", "default", "urgent"))

    assert run_until_idle(cluster) == ""

    outcome = outcome_of(cluster)
    (evicted,) = outcome["evictions"]
    assert evicted.startswith("default/low-main-")
    assert set(outcome["binds"]) == {
        "default/low-main-0",
        "default/low-main-1",
        "default/urgent-main-0",
    } - {evicted}


@pytest.mark.parametrize("cycles", [1, 5])
def test_a_scheduler_with_nothing_to_do_is_not_asked(cycles: int):
    cluster, _ = load(sources(NODE))

    run_cycles(cluster, cycles)

    assert cluster.sessions <= cycles
    assert outcome_of(cluster)["binds"] == {}


def test_a_gang_that_lacks_its_pods_or_its_podgroup_says_so():
    """The scheduler has nothing to place of them; what a manifest said before is history."""
    said = "{type: Unschedulable, status: 'True', reason: NotEnoughResources, message: long ago}"
    group = RUNNING.partition("---")[0].replace("phase: Running", f"conditions: [{said}]")
    lost = RUNNING.partition("---\n")[2].replace("nodeName: n1, ", "") % 0
    cluster, _ = load(sources(NODE, group, lost.replace("group-name: low", "group-name: none")))
    run_until_idle(cluster)

    outcome = outcome_of(cluster)

    told = {name: (why["code"], why["sentence"]) for name, why in outcome["explanations"].items()}
    assert told == {
        "default/low": ("GangIncomplete", "0 of at least 1 pod exist and can still run"),
        "default/none": ("GangIncomplete", "its PodGroup 'none' does not exist"),
    }
    assert outcome["podgroups"]["default/low"]["reason"] == "GangIncomplete"
    assert "long ago" not in outcome["podgroups"]["default/low"]["message"]


QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {capability: {cpu: 4000m, memory: 2G}, guarantee: {resource: {cpu: 1000m, memory: 1536Mi}}}
"""


def test_amounts_are_exact_and_all_written_alike():
    node = NODE.replace("memory: 4Gi", "memory: 4G, ephemeral-storage: 1000000001")
    job = JOB % ("fits", "queue: team", 1)
    cluster, _ = load(sources(node, QUEUE, job.replace("{cpu: 1}", "{cpu: 500m, memory: 1G}")))
    run_until_idle(cluster)

    queue = outcome_of(cluster)["queues"]["team"]

    assert queue["allocated"] == {"cpu": "500m", "memory": "1G", "pods": "1"}
    assert queue["capability"] == {"cpu": "4", "memory": "2G"}
    assert queue["guarantee"] == {"cpu": "1", "memory": "1536Mi"}
    assert queue["realCapability"] == {
        "cpu": "2",
        "memory": "2G",
        "pods": "110",
        "ephemeral-storage": "1000000001",
    }


def test_what_a_job_lacks_is_exact():
    job = (JOB % ("big", "minAvailable: 1", 1)).replace("{cpu: 1}", "{memory: 5000000001}")
    cluster, _ = load(sources(NODE, job))
    run_until_idle(cluster)

    (why,) = outcome_of(cluster)["explanations"].values()

    assert why["shortBy"] == {"memory": str(5000000001 - 4 * 1024**3)}


def test_a_queue_that_has_nothing_is_not_overused():
    cluster, _ = load(sources(NODE, JOB % ("fits", "minAvailable: 2", 2)), PREEMPT)
    run_until_idle(cluster)

    queues = outcome_of(cluster)["queues"]
    empty, _ = load(sources(NODE, QUEUE), PREEMPT)
    run_until_idle(empty)

    assert queues["default"]["overused"]
    assert {queue["overused"] for queue in outcome_of(empty)["queues"].values()} == {False}


def test_people_hear_how_many_pods_wait_and_for_whom_others_went():
    urgent = JOB % ("urgent", "minAvailable: 1\n  priorityClassName: high", 3)
    cluster, _ = load(sources(NODE, CLASS, *LOW, urgent), PREEMPT)
    run_cycles(cluster, 2)

    told = particulars_of(cluster)

    (claimant,) = outcome_of(cluster)["explanations"]
    assert told.waiting == 3
    assert list(told.evicted) == outcome_of(cluster)["evictions"]
    assert set(told.evicted.values()) == {Evicted("n1", "preempt", claimant)}


def test_a_pod_of_another_scheduler_is_none_that_waits():
    other = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: other}\n"
    cluster, _ = load(sources(NODE, other))
    run_until_idle(cluster)

    assert particulars_of(cluster).waiting == 0
