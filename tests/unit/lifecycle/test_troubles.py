"""Jobs that can't get on say why, once, and try again ever later."""

from typing import Any

import pytest

from stromboli.contracts.intents import AnyIntent, CreateObject, DeleteObject
from stromboli.contracts.outcomes import Reason
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task

PENDING = "PodGroupPending"
SAYS = 'Pod "j-t-0" is invalid: spec.restartPolicy: Unsupported value: "Sometimes"'


def events(scenario: JobScenario, reason: str) -> list[dict[str, Any]]:
    found = [scenario.gateway.get("event", name) for name in scenario.gateway.names("event")]
    return [event for event in found if event is not None and event["reason"] == reason]


def refusing(scenario: JobScenario, kind: str, verb: type[AnyIntent], message: str = SAYS) -> None:
    """The API server refuses this from now on."""
    checks = scenario.gateway.check

    def check(intent: AnyIntent) -> tuple[Reason, str] | None:
        if isinstance(intent, verb) and intent.kind == kind:
            return Reason.INVALID, message
        return checks(intent)

    scenario.gateway.check = check


def test_a_template_that_is_refused_is_told_in_the_servers_words_and_tried_with_one_pod(
    scenario: JobScenario,
):
    scenario.submit(job("j", task("t", 600), task("u", 600)))
    allowed = scenario.gateway.check
    refusing(scenario, "pod", CreateObject)
    scenario.enqueue()
    first = len(scenario.gateway.refused)
    for _ in range(40):
        scenario.driver.wait(0.5)
    later = len(scenario.gateway.refused) - first

    state = scenario.status("j")["state"]
    assert (state["phase"], state["reason"]) == ("Pending", "FailedCreate")
    assert state["message"].startswith("Error creating pods: j-")
    assert SAYS in state["message"]
    assert first == 250
    assert 2 <= later <= 2 * 12, "one pod of each task, and ever less often"
    assert len(events(scenario, "FailedCreate")) == 1

    scenario.gateway.check = allowed
    scenario.driver.wait(60)
    assert len(scenario.pods()) == 1200
    assert "reason" not in scenario.status("j")["state"]


def test_pods_that_can_not_be_deleted_are_told_and_tried_again(scenario: JobScenario):
    scenario.running(job("j", task("t", 2)))
    allowed = scenario.gateway.check
    refusing(scenario, "pod", DeleteObject, "denied by a webhook")
    scenario.order("AbortJob", "j")
    scenario.driver.wait(5)

    state = scenario.status("j")["state"]
    assert (state["phase"], state["reason"]) == ("Aborting", "FailedDelete")
    assert state["message"].startswith("Error deleting pods: j-t-")
    assert len(events(scenario, "FailedDelete")) == 1
    scenario.gateway.check = allowed
    scenario.driver.wait(60)
    scenario.release_pods()
    assert scenario.phase("j") == "Aborted"
    assert "reason" not in scenario.status("j")["state"]


@pytest.mark.parametrize(
    ("kind", "plugin", "reason", "words"),
    [
        ("vcpodgroup", {}, "PodGroupError", "PodGroup j-"),
        ("service", {"svc": []}, "PluginError", "Service j could not be made: "),
        ("networkpolicy", {"svc": []}, "PluginError", "NetworkPolicy j could not be made: "),
    ],
)
def test_what_could_not_be_made_is_named(
    scenario: JobScenario, kind: str, plugin: dict[str, Any], reason: str, words: str
):
    refusing(scenario, kind, CreateObject)
    scenario.submit(job("j", task("t", 1), plugins=plugin))
    scenario.driver.wait(1)

    state = scenario.status("j")["state"]
    assert state["reason"] == reason
    assert state["message"].startswith(words)
    assert len(events(scenario, reason)) == 1


def test_a_reason_that_is_worded_differently_each_time_makes_no_storm_of_events(
    scenario: JobScenario,
):
    scenario.submit(job("j", task("t", 1)))
    number = 0

    def check(intent: AnyIntent) -> tuple[Reason, str] | None:
        nonlocal number
        if isinstance(intent, CreateObject) and intent.kind == "pod":
            number += 1
            return Reason.FORBIDDEN, f"exceeded quota: used {number}"
        return None

    scenario.gateway.check = check
    scenario.enqueue()
    for _ in range(110):
        scenario.driver.wait(1)

    assert number > 5
    assert len(events(scenario, "FailedCreate")) == 2, "one at once, one a minute later"


def test_a_config_map_that_somebody_deleted_is_made_again_when_the_job_grows(
    scenario: JobScenario,
):
    scenario.running(job("j", task("t", 1), minAvailable=1, plugins={"svc": []}))
    scenario.gateway.delete("configmap", "j-svc")
    scenario.gateway.patch("vcjob", "j", {"spec": {"tasks": [task("t", 2)]}})
    scenario.settle()
    scenario.driver.wait(60)

    found = scenario.gateway.get("configmap", "j-svc")
    assert found is not None
    assert found["data"]["VC_T_NUM"] == "2"
    assert sorted(scenario.pods()) == ["j-t-0", "j-t-1"]
    assert "reason" not in scenario.status("j")["state"]


def test_a_queue_that_extends_to_other_clusters_marks_the_job_and_its_pods(
    scenario: JobScenario,
):
    spec = {"weight": 1, "extendClusters": [{"name": "elsewhere", "weight": 1}]}
    scenario.gateway.put("queue", {"metadata": {"name": "far"}, "spec": spec})
    scenario.running(job("j", task("t", 1), queue="far"))

    found, pod = scenario.gateway.get("vcjob", "j"), scenario.gateway.get("pod", "j-t-0")
    assert found is not None
    assert pod is not None
    assert found["metadata"]["annotations"] == {"volcano.sh/job-forwarding": "true"}
    assert pod["metadata"]["annotations"]["volcano.sh/job-forwarding"] == "true"
    assert pod["metadata"]["labels"]["volcano.sh/job-forwarding"] == "true"


def says_why(scenario: JobScenario, message: str, since: str) -> None:
    """The scheduler tells why the gang is not let in."""
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": message,
        "lastTransitionTime": since,
    }
    [name] = scenario.gateway.names("vcpodgroup")
    status = {"phase": "Pending", "conditions": [condition]}
    scenario.gateway.patch("vcpodgroup", name, {"status": status})
    scenario.settle()


def test_a_reason_that_only_finds_other_words_makes_nobody_write(scenario: JobScenario):
    """Thousands of jobs may wait, and how much they are short of changes all the time."""
    scenario.submit(job("j", task("t", 1)))
    says_why(scenario, "short by 3 cpu", "2030-01-01T12:00:00Z")
    written = len(scenario.gateway.applied)
    for missing in (2, 1, 4):
        scenario.driver.wait(120)
        says_why(scenario, f"short by {missing} cpu", "2030-01-01T12:00:00Z")

    assert scenario.gateway.applied[written:] == []
    says_why(scenario, "its queue is closed", "2030-01-01T12:08:00Z")
    told = [event["message"].rpartition(", reason: ")[2] for event in events(scenario, PENDING)]
    assert sorted(told) == ["its queue is closed", "short by 3 cpu"]


def test_what_a_pod_waits_for_on_its_node_is_made_again_soon(scenario: JobScenario):
    """A pod that has a node and does not start may lack what somebody deleted."""
    scenario.submit(job("j", task("t", 1), plugins={"svc": []}))
    scenario.enqueue()
    scenario.gateway.delete("configmap", "j-svc")
    scenario.gateway.patch("pod", "j-t-0", {"spec": {"nodeName": "n1"}})
    scenario.settle()
    scenario.driver.wait(60)

    assert scenario.gateway.names("configmap") == ["j-svc"]


def test_a_job_that_runs_asks_for_what_is_there_only_now_and_then(scenario: JobScenario):
    scenario.running(job("j", task("t", 1), plugins={"svc": [], "ssh": []}))
    before = len(scenario.gateway.applied)
    for _ in range(60):
        scenario.driver.wait(60)

    asked = [intent for intent in scenario.gateway.applied[before:] if intent.kind != "vcjob"]
    assert len(asked) == 6 * 4, "four objects every ten minutes"


def test_a_job_without_plugins_asks_for_nothing_while_it_runs(scenario: JobScenario):
    scenario.running(job("j", task("t", 1), plugins={"env": []}))
    before = len(scenario.gateway.applied)
    for _ in range(60):
        scenario.driver.wait(60)

    assert scenario.gateway.applied[before:] == []


@pytest.mark.parametrize("plugin_kind", ["configmap", "service", "networkpolicy"])
def test_an_object_of_another_job_is_named_and_not_used(scenario: JobScenario, plugin_kind: str):
    name = "j-svc" if plugin_kind == "configmap" else "j"
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "old"}
    metadata = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
    scenario.gateway.put(plugin_kind, {"metadata": metadata})
    scenario.submit(job("j", task("t", 1), plugins={"svc": []}))
    scenario.enqueue()
    scenario.driver.wait(1)
    assert scenario.status("j")["state"]["reason"] == "PluginError"
    assert scenario.pods() == {}
    scenario.gateway.delete(plugin_kind, name)
    scenario.driver.wait(60)

    assert scenario.pods() == {"j-t-0": "Pending"}
    assert "reason" not in scenario.status("j")["state"]


def test_a_claim_that_is_being_deleted_is_waited_for(scenario: JobScenario):
    """A protected claim goes only when no pod uses it any more."""
    volume = {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
    scenario.running(job("j", task("t", 1), volumes=[volume], maxRetry=9))
    [claim] = scenario.gateway.names("persistentvolumeclaim")
    leaving = {"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}}
    scenario.gateway.patch("persistentvolumeclaim", claim, leaving)
    scenario.settle()
    assert "is being deleted" in scenario.status("j")["state"]["message"]
    scenario.order("RestartJob", "j")
    scenario.release_pods()
    scenario.enqueue()
    asked = len(scenario.gateway.applied)
    scenario.driver.wait(600)
    assert len(scenario.gateway.applied) < asked + 5
    assert scenario.pods() == {}
    scenario.gateway.delete("persistentvolumeclaim", claim)
    scenario.settle()

    assert scenario.gateway.names("persistentvolumeclaim") == [claim]
    assert scenario.pods() == {"j-t-0": "Pending"}


def test_a_job_that_waits_with_its_answer_to_an_eviction_comes_to_rest(scenario: JobScenario):
    """The pod counts as missed all the while, which is no reason to ask again and again."""
    policies = [{"event": "*", "action": "RestartJob", "timeout": "30s"}]
    scenario.running(job("j", task("t", 2), plugins={"svc": []}, policies=policies))
    scenario.lose_pod("j-t-0")
    before = len(scenario.gateway.applied)
    for _ in range(5):
        scenario.driver.wait(5)

    assert len(scenario.gateway.applied) - before < 5
