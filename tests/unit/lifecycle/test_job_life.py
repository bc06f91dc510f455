from typing import Any

import msgspec
import pytest

from stromboli.contracts.intents import CreateObject, DeleteObject, PatchObject
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, mpi_job, task, tensorflow_job

RESTART_ON_EVICTION = [{"event": "PodEvicted", "action": "RestartJob"}]


def test_a_new_job_gets_what_its_plugins_need_and_a_pod_group_but_no_pods(scenario: JobScenario):
    created = scenario.submit(mpi_job())
    uid = created["metadata"]["uid"]

    assert scenario.phase("lm-mpi-job") == "Pending"
    assert scenario.gateway.names("vcpodgroup") == [f"lm-mpi-job-{uid}"]
    assert scenario.gateway.names("configmap") == ["lm-mpi-job-svc"]
    assert scenario.gateway.names("service") == ["lm-mpi-job"]
    assert scenario.gateway.names("secret") == ["lm-mpi-job-ssh"]
    assert scenario.pods() == {}
    resources = scenario.status("lm-mpi-job")["controlledResources"]
    assert resources["plugin-svc"] == "svc"
    assert resources["plugin-ssh"] == "ssh"
    assert scenario.gateway.refused == []


def test_the_pods_are_created_when_the_gang_is_let_in(scenario: JobScenario):
    scenario.submit(mpi_job())
    scenario.enqueue()

    assert sorted(scenario.pods()) == [
        "lm-mpi-job-mpimaster-0",
        "lm-mpi-job-mpiworker-0",
        "lm-mpi-job-mpiworker-1",
        "lm-mpi-job-mpiworker-2",
    ]
    status = scenario.status("lm-mpi-job")
    assert status["pending"] == 4
    assert status["taskStatusCount"]["mpiworker"] == {"phase": {"Pending": 3}}


def test_the_mpi_job_completes_with_its_master_and_its_workers_are_deleted_while_they_run(
    scenario: JobScenario,
):
    scenario.running(mpi_job())
    assert scenario.phase("lm-mpi-job") == "Running"
    scenario.set_pods("Succeeded", of="mpimaster")

    assert scenario.phase("lm-mpi-job") == "Completing"
    assert scenario.pods() == {
        "lm-mpi-job-mpimaster-0": "Succeeded",
        "lm-mpi-job-mpiworker-0": "Terminating",
        "lm-mpi-job-mpiworker-1": "Terminating",
        "lm-mpi-job-mpiworker-2": "Terminating",
    }
    assert scenario.status("lm-mpi-job")["terminating"] == 3

    scenario.release_pods()

    assert scenario.phases("lm-mpi-job") == ["Pending", "Running", "Completing", "Completed"]
    assert scenario.pods() == {"lm-mpi-job-mpimaster-0": "Succeeded"}
    status = scenario.status("lm-mpi-job")
    assert status["succeeded"] == 1
    assert "terminating" not in status
    assert "retryCount" not in status
    assert scenario.gateway.names("vcpodgroup") == []
    assert scenario.gateway.names("configmap") == []
    assert scenario.gateway.names("secret") == []
    assert scenario.gateway.refused == []


def test_the_tensorflow_job_waits_for_its_last_worker(scenario: JobScenario):
    scenario.running(tensorflow_job())
    scenario.set_pods("Succeeded", of="worker-0")
    assert scenario.phase("tensorflow-benchmark") == "Running"
    scenario.set_pods("Succeeded", of="worker-1")
    scenario.release_pods()

    assert scenario.phase("tensorflow-benchmark") == "Completed"
    assert scenario.status("tensorflow-benchmark")["succeeded"] == 2


def test_a_finished_job_is_left_alone(scenario: JobScenario):
    scenario.running(mpi_job())
    scenario.set_pods("Succeeded", of="mpimaster")
    scenario.release_pods()
    done = len(scenario.gateway.applied)
    scenario.driver.wait(60)
    scenario.driver.start()
    scenario.driver.settle()

    assert len(scenario.gateway.applied) == done


def test_conditions_are_one_per_phase_and_the_newest_is_last(scenario: JobScenario):
    scenario.running(job("j", task("t", 1), policies=RESTART_ON_EVICTION))
    scenario.gateway.now += 100
    scenario.lose_pod("j-t-0")
    scenario.enqueue()
    scenario.set_pods("Running")

    conditions = scenario.status("j")["conditions"]
    assert [c["status"] for c in conditions] == ["Restarting", "Pending", "Running"]
    assert (
        conditions[-1]["lastTransitionTime"] == scenario.status("j")["state"]["lastTransitionTime"]
    )


def test_an_evicted_pod_restarts_the_job_where_a_policy_says_so(scenario: JobScenario):
    scenario.running(mpi_job())
    scenario.lose_pod("lm-mpi-job-mpiworker-1")

    assert set(scenario.pods().values()) == {"Terminating"}
    scenario.release_pods()
    scenario.enqueue()
    status = scenario.status("lm-mpi-job")
    assert status["retryCount"] == 1
    assert status["version"] == 1
    assert len(scenario.pods()) == 4
    scenario.set_pods("Running")
    scenario.set_pods("Succeeded", of="mpimaster")
    scenario.release_pods()

    assert scenario.phases("lm-mpi-job") == [
        *("Pending", "Running", "Restarting", "Pending", "Running", "Completing", "Completed")
    ]


def test_an_evicted_pod_is_simply_made_again_without_a_policy(scenario: JobScenario):
    scenario.running(job("j", task("t", 2)))
    first = scenario.gateway.get("pod", "j-t-1")
    scenario.lose_pod("j-t-1")
    second = scenario.gateway.get("pod", "j-t-1")

    assert first is not None
    assert second is not None
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert "retryCount" not in scenario.status("j")


def test_a_pod_that_comes_and_goes_before_it_was_recorded_is_still_missed(scenario: JobScenario):
    scenario.submit(job("j", task("t", 2), policies=RESTART_ON_EVICTION))
    scenario.settles = False
    scenario.enqueue()
    while "j-t-0" not in scenario.gateway.names("pod"):
        scenario.driver.step()
    scenario.lose_pod("j-t-0")
    scenario.driver.settle()

    assert scenario.status("j")["retryCount"] == 1


def test_an_eviction_while_no_core_was_there_is_found_by_the_next(scenario: JobScenario):
    scenario.running(job("j", task("t", 2), policies=RESTART_ON_EVICTION))
    scenario.settles = False
    scenario.lose_pod("j-t-0")
    scenario.driver.start()
    scenario.driver.settle()

    assert scenario.status("j")["retryCount"] == 1


def test_of_two_evictions_at_once_none_is_forgotten(scenario: JobScenario):
    """The first is answered with a restart of its pod; the other would abort the job."""
    scenario.running(
        job(
            "j",
            task("a", 2, policies=[{"event": "PodEvicted", "action": "RestartPod"}]),
            task("b", 1, policies=[{"event": "PodEvicted", "action": "AbortJob"}]),
            minAvailable=1,
        )
    )
    scenario.settles = False
    scenario.lose_pod("j-a-0")
    scenario.lose_pod("j-b-0")
    scenario.driver.start()
    scenario.driver.settle()
    scenario.release_pods()
    scenario.driver.settle()

    # While it restarts, every action but those for a part starts it anew.
    assert scenario.status("j")["version"] == 1
    assert scenario.phases("j")[:3] == ["Pending", "Running", "Restarting"]


@pytest.mark.parametrize("order", ["SyncJob", "ResumeJob"])
def test_an_eviction_is_not_forgotten_over_an_order(scenario: JobScenario, order: str):
    scenario.running(job("j", task("t", 2), policies=RESTART_ON_EVICTION))
    scenario.settles = False
    scenario.order(order, "j")
    scenario.lose_pod("j-t-0")
    scenario.driver.start()
    scenario.driver.settle()

    assert scenario.status("j")["retryCount"] == 1
    assert scenario.gateway.names("command") == []


def test_a_new_spec_is_not_forgotten_over_an_order(scenario: JobScenario):
    policies = [{"event": "JobUpdated", "action": "RestartJob"}]
    scenario.running(job("j", task("t", 2), policies=policies))
    scenario.settles = False
    scenario.order("SyncJob", "j")
    scenario.gateway.patch("vcjob", "j", {"spec": {"minAvailable": 1}})
    scenario.driver.start()
    scenario.driver.settle()

    assert scenario.status("j")["retryCount"] == 1


def test_a_restart_waits_until_the_old_pods_are_gone(scenario: JobScenario):
    scenario.running(job("j", task("t", 2), policies=RESTART_ON_EVICTION))
    scenario.lose_pod("j-t-0")

    assert scenario.phase("j") == "Restarting"
    assert scenario.pods() == {"j-t-1": "Terminating"}
    scenario.release_pods()
    assert scenario.phase("j") == "Pending"


def test_the_last_retry_fails_the_job_and_keeps_the_failed_pod(scenario: JobScenario):
    policy = {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}
    scenario.running(
        job("j", task("good", 1), task("bad", 1), maxRetry=2, minSuccess=2, policies=[policy])
    )
    scenario.set_pods("Failed", of="bad", exit_code=1)
    scenario.release_pods()
    scenario.enqueue()
    scenario.set_pods("Running")
    scenario.set_pods("Failed", of="bad", exit_code=1)
    scenario.release_pods()

    assert scenario.phase("j") == "Failed"
    assert scenario.status("j")["retryCount"] == 2
    assert scenario.pods() == {"j-bad-0": "Failed"}


@pytest.mark.parametrize(
    ("action", "on_the_way", "at_last"),
    [
        ("AbortJob", "Aborting", "Aborted"),
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ],
)
def test_a_failed_pod_ends_the_job_as_its_policy_says(
    scenario: JobScenario, action: str, on_the_way: str, at_last: str
):
    policy = {"event": "PodFailed", "action": action}
    scenario.running(job("j", task("t", 2), policies=[policy]))
    scenario.set_pods("Failed", of="t-0", exit_code=1)
    assert scenario.phase("j") == on_the_way
    scenario.release_pods()

    assert scenario.phase("j") == at_last
    assert scenario.pods() == {"j-t-0": "Failed"}


def test_an_exit_code_picks_its_policy(scenario: JobScenario):
    policies = [{"exitCode": 3, "action": "RestartJob"}]
    scenario.running(job("j", task("t", 2), policies=policies))
    scenario.set_pods("Failed", of="t-0", exit_code=4)
    assert scenario.phase("j") == "Running"
    scenario.set_pods("Failed", of="t-1", exit_code=3)

    assert "Restarting" in scenario.phases("j")


@pytest.mark.parametrize(
    ("action", "made_anew"),
    [("RestartPod", ["j-a-0"]), ("RestartTask", ["j-a-0", "j-a-1"])],
)
def test_a_restart_of_a_part_leaves_the_rest_alone(
    scenario: JobScenario, action: str, made_anew: list[str]
):
    policies = [{"event": "PodFailed", "action": action}, *RESTART_ON_EVICTION]
    scenario.running(job("j", task("a", 2), task("b", 1), policies=policies))
    before = {name: scenario.gateway.get("pod", name) for name in scenario.pods()}
    scenario.set_pods("Failed", of="a-0", exit_code=1)
    scenario.release_pods()
    scenario.set_pods("Running")
    changed = [
        name
        for name in scenario.pods()
        if uid(scenario.gateway.get("pod", name)) != uid(before[name])
    ]

    assert changed == made_anew
    assert scenario.phase("j") == "Running"
    status = scenario.status("j")
    assert (status["retryCount"], status.get("version", 0)) == (1, 0)


def uid(found: dict[str, Any] | None) -> str:
    assert found is not None
    return found["metadata"]["uid"]


def test_an_action_is_told_as_an_event_once(scenario: JobScenario):
    scenario.running(job("j", task("t", 1)))
    scenario.order("AbortJob", "j")
    scenario.release_pods()
    (name,) = scenario.gateway.names("event")
    event = scenario.gateway.get("event", name)

    assert event is not None
    assert event["reason"] == "CommandIssued"
    assert event["involvedObject"]["name"] == "j"


def test_a_job_with_more_pods_than_any_cluster_has_is_held_back(scenario: JobScenario):
    scenario.submit(job("j", task("t", 2_000_000_000), plugins={"svc": []}))

    assert scenario.status("j")["state"]["reason"] == "TooManyPods"
    assert scenario.gateway.names("vcpodgroup") == []


def test_a_template_that_nobody_can_read_harms_no_other_job(scenario: JobScenario):
    bad = task("t", 1)
    bad["template"] = {"spec": {"containers": "none"}}
    scenario.submit(job("bad", bad))
    scenario.running(job("good", task("t", 1)))

    assert scenario.status("bad")["state"]["reason"] == "InvalidTemplate"
    assert scenario.phase("good") == "Running"


def test_a_job_without_policies_ends_as_its_pods_end(scenario: JobScenario):
    scenario.running(job("good", task("t", 2)))
    scenario.set_pods("Succeeded")
    assert scenario.phase("good") == "Completed"
    scenario.running(job("bad", task("t", 2)))
    scenario.set_pods("Failed", of="bad-t-0", exit_code=1)
    scenario.set_pods("Succeeded", of="bad-t-1")

    assert scenario.phase("bad") == "Failed"


def test_a_command_is_carried_out_once_and_deleted(scenario: JobScenario):
    scenario.running(job("j", task("t", 2)))
    scenario.order("AbortJob", "j")
    assert scenario.gateway.names("command") == []
    scenario.release_pods()
    assert scenario.phase("j") == "Aborted"
    scenario.order("ResumeJob", "j")
    scenario.enqueue()
    scenario.set_pods("Running")

    assert scenario.phase("j") == "Running"
    assert scenario.status("j")["retryCount"] == 1
    assert scenario.gateway.names("command") == []


def test_a_command_whose_deletion_was_lost_is_not_carried_out_again(scenario: JobScenario):
    """The core is killed after the status was written and before the command was deleted."""
    scenario.running(job("j", task("t", 1)))
    scenario.settles = False
    scenario.order("RestartJob", "j")
    asked = scenario.driver.tell(scenario.gateway.stimuli.popleft())
    for intent in asked:
        if not isinstance(intent, DeleteObject):
            scenario.gateway.apply(intent)
    scenario.driver.start()
    scenario.driver.settle()

    assert scenario.status("j")["retryCount"] == 1
    assert scenario.gateway.names("command") == []


def test_a_command_for_an_earlier_job_of_the_name_is_only_deleted(scenario: JobScenario):
    old = scenario.running(job("j", task("t", 1)))
    scenario.gateway.delete("vcjob", "j")
    scenario.settle()
    scenario.running(job("j", task("t", 1)))
    order = {
        "metadata": {"name": "late"},
        "action": "AbortJob",
        "target": {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "j",
            "uid": old["metadata"]["uid"],
        },
    }
    scenario.gateway.put("command", order)
    scenario.settle()

    assert scenario.phase("j") == "Running"
    assert scenario.gateway.names("command") == []


def test_two_commands_are_carried_out_one_after_the_other(scenario: JobScenario):
    scenario.running(job("j", task("t", 1)))
    scenario.settles = False
    scenario.order("AbortJob", "j", name="a")
    scenario.gateway.now += 1
    scenario.order("ResumeJob", "j", name="b")
    scenario.driver.settle()
    scenario.release_pods()
    scenario.driver.settle()

    assert scenario.phase("j") == "Pending"
    assert scenario.status("j")["retryCount"] == 1


def test_everything_of_a_deleted_job_is_forgotten(scenario: JobScenario):
    scenario.running(mpi_job())
    scenario.gateway.delete("vcjob", "lm-mpi-job")
    scenario.settle()

    assert scenario.pods() == {}
    assert scenario.gateway.names("vcpodgroup") == []
    again = scenario.running(mpi_job())
    assert scenario.phase("lm-mpi-job") == "Running"
    assert scenario.gateway.names("vcpodgroup") == [f"lm-mpi-job-{again['metadata']['uid']}"]


def test_fewer_replicas_delete_pods_without_calling_them_evicted(scenario: JobScenario):
    created = scenario.running(job("j", task("t", 3), minAvailable=1, policies=RESTART_ON_EVICTION))
    tasks = created["spec"]["tasks"]
    scenario.gateway.patch("vcjob", "j", {"spec": {"tasks": [{**tasks[0], "replicas": 1}]}})
    scenario.settle()
    scenario.release_pods()

    assert scenario.pods() == {"j-t-0": "Running"}
    assert "retryCount" not in scenario.status("j")


def test_the_gang_follows_the_size_of_the_job(scenario: JobScenario):
    created = scenario.running(job("j", task("t", 2), minAvailable=1))
    scenario.gateway.patch("vcjob", "j", {"spec": {"minAvailable": 2}})
    scenario.settle()

    group = scenario.gateway.get("vcpodgroup", f"j-{created['metadata']['uid']}")
    assert group is not None
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"]["cpu"] == "200m"
    assert scenario.status("j")["minAvailable"] == 2


def test_a_task_waits_for_those_it_depends_on(scenario: JobScenario):
    scenario.submit(
        job(
            "j",
            task("first", 1, minAvailable=1),
            task("then", 1, dependsOn={"name": ["first"]}),
            minAvailable=1,
        )
    )
    scenario.enqueue()
    assert list(scenario.pods()) == ["j-first-0"]
    scenario.set_pods("Running")

    assert list(scenario.pods()) == ["j-first-0", "j-then-0"]


def test_a_job_waits_for_a_queue_that_does_not_exist_and_says_so(scenario: JobScenario):
    scenario.submit(job("j", task("t", 1), queue="later"))
    assert scenario.gateway.names("vcpodgroup") == []
    assert scenario.status("j")["state"]["message"] == "queue later does not exist"
    scenario.gateway.put("queue", {"metadata": {"name": "later"}, "spec": {"weight": 1}})
    scenario.settle()

    assert len(scenario.gateway.names("vcpodgroup")) == 1
    assert "message" not in scenario.status("j")["state"]


def test_a_plugin_that_nobody_knows_holds_the_job_back(scenario: JobScenario):
    scenario.submit(job("j", task("t", 1), plugins={"magic": []}))

    assert scenario.gateway.names("vcpodgroup") == []
    assert scenario.status("j")["state"]["message"] == "failed to get plugin magic"


def test_a_large_gang_is_created_in_portions(scenario: JobScenario):
    scenario.submit(job("j", task("t", 600)))
    scenario.settles = False
    scenario.enqueue()
    most = 0
    while scenario.gateway.stimuli:
        most = max(most, len(scenario.driver.step()))
    scenario.set_pods("Running")
    scenario.driver.settle()

    assert 100 < most <= 251
    assert scenario.status("j")["running"] == 600
    records = scenario.status("j")["controlledResources"]
    assert records["stromboli/pods-t"] == "0-599"


def test_every_status_is_written_as_a_patch_of_what_changed(scenario: JobScenario):
    scenario.running(job("j", task("t", 2)))
    before = len(scenario.gateway.applied)
    scenario.set_pods("Succeeded", of="t-0")

    (patch,) = scenario.gateway.applied[before:]
    assert msgspec.json.decode(patch.patch) == {  # pyright: ignore[reportAttributeAccessIssue]
        "status": {
            "running": 1,
            "succeeded": 1,
            "taskStatusCount": {"t": {"phase": {"Running": 1, "Succeeded": 1}}},
            "controlledResources": {"stromboli/succeeded-t": "0"},
        }
    }


def test_a_pod_that_is_on_its_way_out_is_restarted_with_those_that_are_gone(scenario: JobScenario):
    """However long its grace is: it is not one more retry when that is over."""
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    scenario.running(job("j", task("t", 4), policies=policies, minAvailable=1))
    scenario.settles = False
    leaving = {"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}}
    scenario.gateway.patch("pod", "j-t-2", leaving)
    scenario.lose_pod("j-t-0")
    scenario.settles = True
    scenario.settle()
    scenario.set_pods("Running", of="t-0")
    scenario.driver.wait(600)
    scenario.release_pods()

    assert scenario.status("j")["retryCount"] == 1
    assert sorted(scenario.pods()) == [f"j-t-{index}" for index in range(4)]


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "Evicted"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ],
)
def test_a_pod_that_failed_by_an_interruption_is_lost_when_it_is_gone(
    scenario: JobScenario, status: Any
):
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    scenario.running(job("j", task("t", 2), policies=policies))
    scenario.gateway.patch("pod", "j-t-0", {"status": {"phase": "Failed", **status}})
    scenario.settle()
    scenario.lose_pod("j-t-0")

    assert scenario.phase("j") == "Restarting"


def test_a_pod_that_ends_while_it_is_told_to_go_is_lost_when_it_is_gone(scenario: JobScenario):
    scenario.running(job("j", task("t", 2)))
    scenario.gateway.patch(
        *("pod", "j-t-0"),
        {
            "metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"},
            "status": {"phase": "Succeeded"},
        },
    )
    scenario.settle()
    scenario.release_pods()

    assert scenario.pods() == {"j-t-0": "Pending", "j-t-1": "Running"}


@pytest.mark.parametrize(
    ("phase", "policy", "reached"),
    [("Failed", "PodFailed", "Terminated"), ("Succeeded", "TaskCompleted", "Terminated")],
)
def test_a_pod_that_ended_and_was_cleared_away_at_once_is_answered_by_its_policy(
    scenario: JobScenario, phase: str, policy: str, reached: str
):
    """Both are heard before anything is decided."""
    policies = [{"event": policy, "action": "TerminateJob"}]
    scenario.running(job("j", task("t", 1), task("u", 1), policies=policies))
    scenario.settles = False
    scenario.set_pods(phase, of="j-t-0")
    scenario.lose_pod("j-t-0")
    stimuli = list(scenario.gateway.stimuli)
    scenario.gateway.stimuli.clear()
    core: Any = scenario.driver.core
    for instruction in core.handle_all(stimuli, now=scenario.gateway.now):
        if isinstance(instruction, CreateObject | DeleteObject | PatchObject):
            scenario.gateway.apply(instruction)
    scenario.settles = True
    scenario.settle()
    scenario.release_pods()

    assert scenario.phase("j") == reached


def test_a_failed_pod_that_is_cleared_away_is_still_answered_after_its_timeout(
    scenario: JobScenario,
):
    policies = [{"event": "PodFailed", "action": "TerminateJob", "timeout": "30s"}]
    scenario.running(job("j", task("t", 2), policies=policies))
    scenario.set_pods("Failed", of="t-0", exit_code=1)
    scenario.lose_pod("j-t-0")
    assert scenario.phase("j") == "Running"
    scenario.driver.wait(31)

    assert scenario.phase("j") == "Terminating"
