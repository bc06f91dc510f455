"""Jobs in a queue that is closing keep their place in it, and say what they wait for."""

from typing import Any

import pytest

from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task

SVC: dict[str, Any] = {"svc": []}


def in_queue(scenario: JobScenario, **spec: Any) -> None:
    """A job that runs in queue `q`."""
    scenario.gateway.put("queue", {"metadata": {"name": "q"}, "spec": {"parent": "root"}})
    scenario.settle()
    scenario.running(job("j", task("t", 2), queue="q", maxRetry=9, **spec))


def order_queue(scenario: JobScenario, action: str) -> None:
    queue = scenario.gateway.get("queue", "q")
    assert queue is not None
    target = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": "q",
        "uid": queue["metadata"]["uid"],
    }
    metadata = {"name": f"order-{action}", "namespace": "default"}
    scenario.gateway.put("command", {"metadata": metadata, "action": action, "target": target})
    scenario.settle()
    scenario.driver.wait(10)  # less than any pause of a job


def queue_state(scenario: JobScenario) -> str:
    queue = scenario.gateway.get("queue", "q")
    assert queue is not None
    return str(queue["status"]["state"])


def empty_gang(scenario: JobScenario) -> None:
    """The scheduler sends a gang without pods back."""
    for name in scenario.gateway.names("vcpodgroup"):
        scenario.gateway.patch("vcpodgroup", name, {"status": {"phase": "Pending"}})
    scenario.settle()


@pytest.mark.parametrize("restarts", ["order", "policy"])
def test_a_job_that_restarts_in_a_closing_queue_keeps_its_place(
    scenario: JobScenario, restarts: str
):
    in_queue(scenario, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    gangs = scenario.gateway.names("vcpodgroup")
    order_queue(scenario, "CloseQueue")
    if restarts == "order":
        scenario.order("RestartJob", "j")
    else:
        scenario.set_pods("Failed", of="t-0", exit_code=1)
    empty_gang(scenario)
    scenario.release_pods()

    assert queue_state(scenario) == "Closing", "a job is still in it"
    assert scenario.gateway.names("vcpodgroup") == gangs
    assert scenario.phase("j") == "Pending"
    state = scenario.status("j")["state"]
    assert (state["reason"], "queue q is Closing" in state["message"]) == ("QueueNotOpen", True)

    order_queue(scenario, "OpenQueue")
    assert "reason" not in scenario.status("j")["state"], "at once, not after a pause"
    scenario.enqueue()
    assert sorted(scenario.pods()) == ["j-t-0", "j-t-1"]


def test_a_pod_that_does_not_start_in_a_closing_queue_is_told_of(scenario: JobScenario):
    in_queue(scenario, minAvailable=1, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    order_queue(scenario, "CloseQueue")
    scenario.set_pods("Failed", of="t-0", exit_code=1)
    assert scenario.pods() == {"j-t-0": "Pending", "j-t-1": "Running"}
    assert scenario.status("j")["state"]["reason"] == "QueueNotOpen", "no pod starts there"
    scenario.set_pods("Running", of="t-0")

    assert "reason" not in scenario.status("j")["state"]


def test_a_job_without_a_gang_waits_for_its_queue_and_asks_for_nothing_meanwhile(
    scenario: JobScenario,
):
    in_queue(scenario, plugins=SVC)
    scenario.order("AbortJob", "j", name="a")
    scenario.release_pods()
    order_queue(scenario, "CloseQueue")
    assert queue_state(scenario) == "Closed"
    scenario.order("ResumeJob", "j", name="b")
    assert scenario.status("j")["state"]["reason"] == "QueueNotOpen"
    asked = len(scenario.gateway.applied)
    scenario.driver.wait(300)
    assert [i.kind for i in scenario.gateway.applied[asked:]] == []

    order_queue(scenario, "OpenQueue")
    scenario.enqueue()
    assert sorted(scenario.pods()) == ["j-t-0", "j-t-1"]
    assert scenario.gateway.names("configmap") == ["j-svc"]


def test_a_job_that_ends_in_a_closing_queue_leaves_it(scenario: JobScenario):
    in_queue(scenario)
    order_queue(scenario, "CloseQueue")
    scenario.set_pods("Succeeded")
    scenario.driver.wait(10)

    assert (scenario.phase("j"), queue_state(scenario)) == ("Completed", "Closed")
