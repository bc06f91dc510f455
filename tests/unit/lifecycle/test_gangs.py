"""Pods that other operators make get a gang: one for all pods of one controller."""

from typing import Any

import pytest

from stromboli.contracts.outcomes import Reason
from stromboli.testkit.job_scenario import JobScenario

GROUP = "scheduling.k8s.io/group-name"
PYTORCH_UID = "11111111-0000-4000-8000-000000000001"

Manifest = dict[str, Any]


def owned(owner: Manifest, kind: str, api_version: str) -> list[Manifest]:
    metadata = owner["metadata"]
    return [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
    ]


PYTORCH_JOB = owned(
    {"metadata": {"name": "train", "uid": PYTORCH_UID}}, "PyTorchJob", "kubeflow.org/v1"
)


def pod(name: str, owners: list[Manifest] | None = None, cpu: str = "1", **more: Any) -> Manifest:
    metadata: Manifest = {"name": name, **more}
    if owners:
        metadata["ownerReferences"] = owners
    resources = {"requests": {"cpu": cpu}}
    spec = {
        "schedulerName": "volcano",
        "priorityClassName": "high",
        "containers": [{"name": "main", "resources": resources}],
    }
    return {"metadata": metadata, "spec": spec}


class Workloads:
    """What an operator, or Kubernetes itself, does."""

    def __init__(self, scenario: JobScenario) -> None:
        self.scenario = scenario
        self.gateway = scenario.gateway

    def put(self, kind: str, manifest: Manifest) -> Manifest:
        made = self.gateway.put(kind, manifest)
        self.scenario.settle()
        return made

    def replica_set(self, name: str, replicas: int, **annotations: str) -> list[Manifest]:
        spec = {"replicas": replicas}
        metadata = {"name": name, "annotations": annotations}
        made = self.put("replicaset", {"metadata": metadata, "spec": spec})
        return owned(made, "ReplicaSet", "apps/v1")

    def group_of(self, pod: str) -> Manifest | None:
        found = self.gateway.get("pod", pod)
        assert found is not None
        name = found["metadata"].get("annotations", {}).get(GROUP)
        return None if name is None else self.gateway.get("vcpodgroup", name)

    def complaints(self) -> list[tuple[str, str, str]]:
        events = (self.gateway.get("event", name) for name in self.gateway.names("event"))
        return [
            (event["involvedObject"]["kind"], event["reason"], event["message"])
            for event in events
            if event is not None and event["type"] == "Warning"
        ]


@pytest.fixture
def workloads(scenario: JobScenario) -> Workloads:
    return Workloads(scenario)


def test_the_pods_of_one_controller_share_a_gang_named_after_it(workloads: Workloads):
    for name in ("train-master-0", "train-worker-0", "train-worker-1"):
        workloads.put("pod", pod(name, PYTORCH_JOB))

    assert workloads.gateway.names("vcpodgroup") == [f"podgroup-{PYTORCH_UID}"]
    group = workloads.group_of("train-worker-1")
    assert group is not None
    assert group["metadata"]["ownerReferences"] == PYTORCH_JOB
    assert group["spec"] == {
        "minMember": 1,
        "priorityClassName": "high",
        "minResources": {"count/pods": "1", "pods": "1", "cpu": "1", "requests.cpu": "1"},
    }


def test_a_pod_alone_owns_its_gang(workloads: Workloads):
    made = workloads.put("pod", pod("alone", annotations={"volcano.sh/preemptable": "true"}))

    group = workloads.group_of("alone")
    assert group is not None
    assert group["metadata"]["name"] == f"podgroup-{made['metadata']['uid']}"
    assert [(o["kind"], o["name"]) for o in group["metadata"]["ownerReferences"]] == [
        ("Pod", "alone")
    ]
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    workloads.gateway.delete("pod", "alone")
    workloads.scenario.settle()
    assert workloads.gateway.names("vcpodgroup") == []


@pytest.mark.parametrize(
    "other",
    [
        {"annotations": {GROUP: "made-by-somebody"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_pod_that_has_a_gang_or_is_ending_gets_none(workloads: Workloads, other: Manifest):
    workloads.put("pod", pod("p", **other))

    assert workloads.gateway.names("vcpodgroup") == []


def test_a_pod_of_another_scheduler_or_one_that_has_finished_gets_none(workloads: Workloads):
    foreign = pod("p")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    workloads.put("pod", foreign)
    workloads.put("pod", {**pod("q"), "status": {"phase": "Succeeded"}})

    assert workloads.gateway.names("vcpodgroup") == []


def test_the_owner_says_how_many_must_run_together(workloads: Workloads):
    owners = workloads.replica_set(
        "web",
        4,
        **{
            "scheduling.volcano.sh/group-min-member": "3",
            "volcano.sh/sla-waiting-time": "1h",
            "other/thing": "x",
        },
    )
    workloads.put("pod", pod("web-0", owners, annotations={
        "scheduling.volcano.sh/queue-name": "research",
        "volcano.sh/jdb-min-available": "2",
        "volcano.sh/network-topology-mode": "SOFT",
        "volcano.sh/network-topology-highest-tier": "2",
    }))  # fmt: skip

    group = workloads.group_of("web-0")
    assert group is not None
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minResources"]["cpu"] == "3"
    assert group["spec"]["queue"] == "research"
    assert group["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}
    assert group["metadata"]["annotations"] == {
        "volcano.sh/sla-waiting-time": "1h",
        "volcano.sh/jdb-min-available": "2",
    }


@pytest.mark.parametrize("nonsense", ["three", "-1", "", "1e3", "99999999999", "9" * 5000])
def test_a_minimum_that_is_no_number_counts_as_one_and_is_told(workloads: Workloads, nonsense: str):
    owners = workloads.replica_set("web", 2, **{"scheduling.volcano.sh/group-min-member": nonsense})
    workloads.put("pod", pod("web-0", owners))
    for _ in range(20):
        workloads.scenario.driver.wait(30)

    group = workloads.group_of("web-0")
    assert group is not None
    assert group["spec"]["minMember"] == 1
    assert workloads.complaints() == [
        (
            "ReplicaSet",
            "InvalidAnnotation",
            (
                "annotation scheduling.volcano.sh/group-min-member is "
                f"{nonsense[:100]!r}: expected a number of pods; taking 1"
            ),
        )
    ]


def test_topology_annotations_that_make_no_sense_are_told(workloads: Workloads):
    workloads.put("pod", pod("p", annotations={
        "volcano.sh/network-topology-mode": "tight",
        "volcano.sh/network-topology-highest-tier": "top",
    }))  # fmt: skip

    group = workloads.group_of("p")
    assert group is not None
    assert group["spec"]["networkTopology"] == {"mode": "hard"}
    assert len(workloads.complaints()) == 2


def test_the_gang_follows_the_annotations_of_its_replica_set(workloads: Workloads):
    owners = workloads.replica_set("web", 4)
    workloads.put("pod", pod("web-0", owners))
    change = {"metadata": {"annotations": {"scheduling.volcano.sh/group-min-member": "4"}}}
    workloads.gateway.patch("replicaset", "web", change)
    workloads.scenario.settle()

    group = workloads.group_of("web-0")
    assert group is not None
    assert (group["spec"]["minMember"], group["spec"]["minResources"]["cpu"]) == (4, "4")


def test_a_rollout_leaves_one_gang_that_of_the_new_replica_set(workloads: Workloads):
    """Case 39: the old set is scaled to nothing, and its gang goes with it."""
    old = workloads.replica_set("web-1", 2)
    for name in ("web-1-a", "web-1-b"):
        workloads.put("pod", pod(name, old))
    new = workloads.replica_set("web-2", 2)
    for name in ("web-2-a", "web-2-b"):
        workloads.put("pod", pod(name, new, cpu="500m"))
    workloads.gateway.patch("replicaset", "web-1", {"spec": {"replicas": 0}})
    workloads.scenario.settle()
    for name in ("web-1-a", "web-1-b"):
        workloads.gateway.delete("pod", name)
        workloads.scenario.settle()

    assert workloads.gateway.names("vcpodgroup") == [f"podgroup-{new[0]['uid']}"]
    group = workloads.group_of("web-2-a")
    assert group is not None
    assert group["spec"]["minResources"]["requests.cpu"] == "500m"


def test_a_stateful_set_under_update_is_measured_by_its_newest_pods(workloads: Workloads):
    made = workloads.put(
        "statefulset",
        {
            "metadata": {"name": "db"},
            "spec": {"replicas": 2},
            "status": {"updateRevision": "r2"},
        },
    )
    owners = owned(made, "StatefulSet", "apps/v1")
    workloads.put("pod", pod("db-0", owners, labels={"controller-revision-hash": "r1"}))
    workloads.put("pod", pod("db-1", owners, "2", labels={"controller-revision-hash": "r2"}))

    group = workloads.group_of("db-0")
    assert group is not None
    assert group["spec"]["minResources"]["cpu"] == "2"


def test_a_gang_that_was_deleted_comes_back_while_there_are_pods(workloads: Workloads):
    workloads.put("pod", pod("train-worker-0", PYTORCH_JOB))
    workloads.gateway.delete("vcpodgroup", f"podgroup-{PYTORCH_UID}")
    workloads.scenario.settle()

    assert workloads.group_of("train-worker-0") is not None


def test_a_new_core_asks_for_nothing(workloads: Workloads):
    owners = workloads.replica_set("web", 2)
    for name in ("web-0", "web-1"):
        workloads.put("pod", pod(name, owners))
    asked = len(workloads.gateway.applied)
    workloads.scenario.driver.start()
    workloads.scenario.driver.settle()

    assert len(workloads.gateway.applied) == asked


def test_a_gang_that_is_refused_is_told_and_asked_for_ever_later(workloads: Workloads):
    original = workloads.gateway.check
    refused = 0

    def refuse(intent: Any) -> Any:
        nonlocal refused
        if intent.kind == "vcpodgroup":
            refused += 1
            return Reason.FORBIDDEN, "queue `research` is closed"
        return original(intent)

    workloads.gateway.check = refuse
    workloads.put("pod", pod("train-worker-0", PYTORCH_JOB))
    for _ in range(100):
        workloads.scenario.driver.wait(1)

    assert 5 <= refused <= 20
    assert workloads.group_of("train-worker-0") is None
    assert workloads.complaints() == [
        (
            "Pod",
            "FailedCreatePodGroup",
            "its PodGroup could not be made: create vcpodgroup: queue `research` is closed",
        )
    ]
