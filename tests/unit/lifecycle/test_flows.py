"""Jobs that wait for each other: made in order, told in the status, tried again, cleared up."""

from typing import Any

import pytest

from stromboli.contracts.intents import CreateObject, PatchObject
from stromboli.contracts.stimuli import ProbeAnswered
from stromboli.lifecycle.controllers.registry import kinds_read_by, made
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.moments import as_text
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.simulated_gateway import SimulatedGateway

NAMES = ("jobflow-controller", "jobtemplate-controller")

Manifest = dict[str, Any]


def step(name: str, *targets: str, **more: Any) -> Manifest:
    depends = {"targets": list(targets), **more.pop("depends_on", {})}
    return {"name": name, **({"dependsOn": depends} if targets else {}), **more}


class Flows:
    """The flow controllers alone, and the test in the place of all others."""

    def __init__(self) -> None:
        turns = iter(range(10_000))
        self.gateway = SimulatedGateway(watched=kinds_read_by(NAMES))
        self.scenario = JobScenario(
            self.gateway, lambda: LifecycleCore(turn=f"turn-{next(turns)}", controllers=made(NAMES))
        )
        self.driver = self.scenario.driver

    def template(self, *names: str) -> None:
        for name in names:
            spec = job("x", task("main", 2))["spec"]
            self.gateway.put("jobtemplate", {"metadata": {"name": name}, "spec": spec})
        self.scenario.settle()

    def submit(self, *steps: Manifest, retain: str = "", name: str = "f") -> None:
        spec: Manifest = {"flows": list(steps)}
        if retain:
            spec["jobRetainPolicy"] = retain
        self.gateway.put("jobflow", {"metadata": {"name": name}, "spec": spec})
        self.scenario.settle()

    def set(self, name: str, phase: str, **status: Any) -> None:
        state = {"phase": phase, "lastTransitionTime": as_text(self.gateway.now)}
        self.gateway.patch("vcjob", name, {"status": {"state": state, **status}})
        self.scenario.settle()

    def jobs(self) -> list[str]:
        return self.gateway.names("vcjob")

    def status(self, name: str = "f") -> Manifest:
        found = self.gateway.get("jobflow", name)
        assert found is not None
        return found.get("status", {})

    def phase(self) -> str:
        return self.status()["state"]["phase"]

    def events(self) -> list[tuple[str, str]]:
        events = (self.gateway.get("event", name) for name in self.gateway.names("event"))
        return [(event["reason"], event["message"]) for event in events if event is not None]


@pytest.fixture
def flows() -> Flows:
    return Flows()


def test_a_diamond_is_made_from_its_top_to_its_bottom(flows: Flows):
    flows.template("a", "b", "c", "d")
    flows.submit(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))
    assert (flows.jobs(), flows.phase()) == (["f-a"], "Pending")
    flows.set("f-a", "Running")
    assert (flows.jobs(), flows.phase()) == (["f-a"], "Running")
    flows.set("f-a", "Completed")
    assert flows.jobs() == ["f-a", "f-b", "f-c"]
    flows.set("f-b", "Completed")
    assert flows.jobs() == ["f-a", "f-b", "f-c"]
    flows.set("f-c", "Completed")
    assert flows.jobs() == ["f-a", "f-b", "f-c", "f-d"]
    flows.set("f-d", "Completed")

    assert flows.phase() == "Succeed"
    assert flows.status()["completedJobs"] == ["f-a", "f-b", "f-c", "f-d"]
    assert ("Created", "create a job named f-d!") in flows.events()


def test_a_job_knows_where_it_comes_from(flows: Flows):
    flows.template("a")
    flows.submit(step("a"))

    found = flows.gateway.get("vcjob", "f-a")
    assert found is not None
    origin = {
        "volcano.sh/createdByJobTemplate": "default.a",
        "volcano.sh/createdByJobFlow": "default.f",
    }
    assert found["metadata"]["labels"] == origin
    assert found["metadata"]["annotations"] == origin
    assert [(o["kind"], o["name"]) for o in found["metadata"]["ownerReferences"]] == [
        ("JobFlow", "f")
    ]
    template = flows.gateway.get("jobtemplate", "a")
    assert template is not None
    assert template["status"] == {"jobDependsOnList": ["f-a"]}


def test_names_that_are_too_long_for_a_label_are_in_the_annotation(flows: Flows):
    long = "a" * 60
    flows.template(long)
    flows.submit(step(long))

    found = flows.gateway.get("vcjob", f"f-{long}")
    assert found is not None
    assert found["metadata"]["labels"] == {"volcano.sh/createdByJobFlow": "default.f"}
    template = flows.gateway.get("jobtemplate", long)
    assert template is not None
    assert template["status"]["jobDependsOnList"] == [f"f-{long}"]


def test_the_status_tells_what_became_of_each_job(flows: Flows):
    flows.template("a", "b", "c")
    flows.submit(step("a"), step("b"), step("c"))
    began = as_text(flows.gateway.now)
    flows.gateway.now += 10
    flows.set("f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 2}}}, retryCount=1)
    flows.set("f-b", "Restarting")

    status = flows.status()
    assert status["runningJobs"] == ["f-a"]
    assert status["pendingJobs"] == ["f-c"]
    assert status["unKnowJobs"] == ["f-b"]
    assert status["conditions"]["f-a"] == {
        "phase": "Running",
        "createTime": began,
        "taskStatusCount": {"main": {"phase": {"Running": 2}}},
    }
    [told] = [one for one in status["jobStatusList"] if one["name"] == "f-a"]
    assert (told["state"], told["startTimestamp"], told["restartCount"]) == ("Running", began, 1)
    assert [(h["state"], "endTimestamp" in h) for h in told["runningHistories"]] == [
        ("Pending", True),
        ("Running", False),
    ]


@pytest.mark.parametrize("phase", ["Failed", "Terminated"])
def test_a_failure_starts_nothing_more_until_it_is_tried_again(flows: Flows, phase: str):
    flows.template("a", "b", "c")
    flows.submit(step("a"), step("b"), step("c", "a"))
    flows.set("f-b", phase)
    assert flows.phase() == "Failed"
    flows.set("f-a", "Completed")
    assert flows.jobs() == ["f-a", "f-b"]

    flows.gateway.delete("vcjob", "f-b")
    flows.scenario.settle()
    assert flows.jobs() == ["f-a", "f-b", "f-c"]
    assert flows.phase() == "Running"


def test_a_failed_job_that_is_resumed_brings_the_flow_back(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), step("b", "a"))
    flows.set("f-a", "Failed")
    flows.set("f-a", "Running")
    assert flows.phase() == "Running"
    flows.set("f-a", "Completed")

    assert flows.jobs() == ["f-a", "f-b"]


def test_a_completed_job_that_is_gone_by_now_is_not_made_again(flows: Flows):
    """Its time to live may be over long before the flow is."""
    flows.template("a", "b")
    flows.submit(step("a"), step("b", "a"))
    flows.set("f-a", "Completed")
    flows.gateway.delete("vcjob", "f-a")
    flows.scenario.settle()
    flows.driver.start()
    flows.driver.settle()
    assert flows.jobs() == ["f-b"]
    flows.set("f-b", "Completed")
    assert flows.phase() == "Succeed"
    flows.gateway.delete("vcjob", "f-b")
    flows.scenario.settle()

    assert (flows.jobs(), flows.phase()) == ([], "Succeed")
    assert flows.status()["completedJobs"] == ["f-a", "f-b"]


def with_time_to_live(flows: Flows, name: str, ttl_s: int) -> None:
    spec = job("x", task("main", 2), ttlSecondsAfterFinished=ttl_s)["spec"]
    flows.gateway.put("jobtemplate", {"metadata": {"name": name}, "spec": spec})
    flows.scenario.settle()


def collect(flows: Flows, name: str) -> None:
    flows.gateway.delete("vcjob", name)
    flows.scenario.settle()


@pytest.mark.parametrize(
    ("phase", "listed"), [("Failed", "failedJobs"), ("Terminated", "terminatedJobs")]
)
@pytest.mark.parametrize("crashes", [False, True])
def test_a_job_that_failed_and_was_collected_is_not_made_again(
    flows: Flows, phase: str, listed: str, crashes: bool
):
    with_time_to_live(flows, "a", 60)
    flows.template("b")
    flows.submit(step("a"), step("b", "a"))
    flows.set("f-a", phase)
    flows.gateway.now += 60
    flows.gateway.delete("vcjob", "f-a")
    if crashes:
        flows.driver.start()
    flows.scenario.settle()
    for _ in range(3):
        flows.driver.wait(3600)
        flows.driver.start()
        flows.driver.settle()

    assert (flows.jobs(), flows.phase(), flows.status()[listed]) == ([], "Failed", ["f-a"])
    [told] = flows.status()["jobStatusList"]
    assert (told["state"], told["runningHistories"][-1]["state"]) == (phase, phase)


def test_a_job_that_was_collected_is_remembered_whatever_becomes_of_its_template(flows: Flows):
    with_time_to_live(flows, "a", 60)
    flows.submit(step("a"))
    flows.set("f-a", "Failed")
    flows.gateway.now += 61
    collect(flows, "f-a")
    spec = {"ttlSecondsAfterFinished": 7200}
    flows.gateway.patch("jobtemplate", "a", {"spec": spec})
    flows.driver.start()
    flows.driver.settle()
    flows.gateway.delete("jobtemplate", "a")
    flows.driver.wait(10)

    assert (flows.jobs(), flows.phase()) == ([], "Failed")


def test_a_failed_job_that_somebody_deletes_before_its_time_is_tried_again(flows: Flows):
    with_time_to_live(flows, "a", 60)
    flows.submit(step("a"))
    flows.set("f-a", "Failed")
    flows.gateway.now += 30
    collect(flows, "f-a")

    assert (flows.jobs(), flows.phase()) == (["f-a"], "Pending")


def test_a_job_that_is_deleted_in_time_is_tried_again_when_the_other_failure_is_gone_too(
    flows: Flows,
):
    with_time_to_live(flows, "a", 60)
    flows.template("b")
    flows.submit(step("a"), step("b"))
    flows.set("f-a", "Failed")
    flows.set("f-b", "Failed")
    collect(flows, "f-a")
    flows.driver.wait(600)
    assert flows.jobs() == ["f-b"]
    collect(flows, "f-b")

    assert flows.jobs() == ["f-a", "f-b"]


def test_a_time_to_live_in_a_patch_counts(flows: Flows):
    flows.template("a")
    flows.submit(step("a", patch={"jobSpec": {"ttlSecondsAfterFinished": 5}}))
    flows.set("f-a", "Failed")
    flows.gateway.now += 5
    collect(flows, "f-a")

    assert (flows.jobs(), flows.phase()) == ([], "Failed")


@pytest.mark.parametrize(
    ("phase", "after"), [("Failed", "Failed"), ("Terminated", "Failed"), ("Completed", "Succeed")]
)
def test_a_job_that_ends_and_goes_before_its_flow_is_decided_is_not_made_again(
    flows: Flows, phase: str, after: str
):
    """A time to live of 0: both are heard at once."""
    with_time_to_live(flows, "a", 0)
    flows.submit(step("a"))
    flows.set("f-a", "Running")
    state = {"phase": phase, "lastTransitionTime": as_text(flows.gateway.now)}
    flows.gateway.patch("vcjob", "f-a", {"status": {"state": state}})
    flows.gateway.delete("vcjob", "f-a")
    core: Any = flows.driver.core
    heard = list(flows.gateway.stimuli)
    flows.gateway.stimuli.clear()
    for instruction in core.handle_all(heard, now=flows.gateway.now):
        if isinstance(instruction, PatchObject | CreateObject):
            flows.gateway.apply(instruction)
    flows.scenario.settle()
    flows.driver.start()
    flows.driver.settle()

    assert (flows.jobs(), flows.phase()) == ([], after)


@pytest.mark.parametrize(("retain", "left"), [("delete", []), ("retain", ["f-a"]), ("", ["f-a"])])
def test_what_is_left_of_a_flow_that_succeeded(flows: Flows, retain: str, left: list[str]):
    flows.template("a")
    flows.submit(step("a"), retain=retain)
    flows.set("f-a", "Completed")

    assert (flows.jobs(), flows.phase()) == (left, "Succeed")


def test_a_missing_template_is_told_and_waited_for(flows: Flows):
    flows.submit(step("a"))
    asked = len(flows.gateway.applied)
    for _ in range(30):
        flows.driver.wait(30)
    assert flows.jobs() == []
    assert flows.events() == [
        (
            "TemplateNotFound",
            "the JobTemplate a does not exist in namespace default; the flow goes on when it does",
        )
    ]
    assert len(flows.gateway.applied) == asked
    flows.template("a")

    assert flows.jobs() == ["f-a"]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([step("a", "a")], "a -> a wait for each other"),
        (
            [step("a", "c"), step("b", "a"), step("c", "b")],
            "a -> c -> b -> a wait for each other",
        ),
        ([step("a"), step("b", "x")], "vertex is not defined: x"),
    ],
)
def test_a_flow_that_can_never_end_is_told_and_not_begun(
    flows: Flows, steps: list[Manifest], said: str
):
    flows.template("a", "b", "c")
    flows.submit(*steps)

    [(reason, message)] = flows.events()
    assert (reason, said in message) == ("InvalidFlow", True)
    assert message.startswith("jobflow Flow is not DAG")
    assert flows.jobs() == []
    assert flows.phase() == "Pending"


def test_a_patch_changes_what_it_names_and_nothing_else(flows: Flows):
    flows.template("a")
    patch = {
        "jobSpec": {
            "queue": "fast",
            "tasks": [
                {
                    "name": "main",
                    "replicas": 5,
                    "template": {"spec": {"containers": [{"name": "main", "image": "new"}]}},
                }
            ],
        }
    }
    flows.submit(step("a", patch=patch))

    found = flows.gateway.get("vcjob", "f-a")
    assert found is not None
    [main] = found["spec"]["tasks"]
    [container] = main["template"]["spec"]["containers"]
    assert found["spec"]["queue"] == "fast"
    assert found["spec"]["maxRetry"] == 3
    assert main["replicas"] == 5
    assert (container["image"], container["command"]) == ("new", ["sh", "-c", "sleep 3"])


def test_a_patch_that_makes_no_job_is_told(flows: Flows):
    flows.template("a")
    flows.submit(step("a", patch={"jobSpec": {"maxRetry": "often"}}))

    [(reason, message)] = flows.events()
    assert reason == "InvalidPatch"
    assert "maxRetry" in message
    assert flows.jobs() == []


# Probes.


def waits_for(**probe: Any) -> Manifest:
    return step("b", "a", depends_on={"probe": probe})


def at_work(flows: Flows, *, running: int = 2) -> None:
    """The first job runs with its pods."""
    owner = flows.gateway.get("vcjob", "f-a")
    assert owner is not None
    for index in range(running):
        metadata = {
            "name": f"f-a-main-{index}",
            "annotations": {"volcano.sh/task-spec": "main"},
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": "f-a",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ],
        }
        status = {"phase": "Running", "podIP": f"10.0.0.{index}"}
        flows.gateway.put("pod", {"metadata": metadata, "status": status})
    counts = {"main": {"phase": {"Running": running}}}
    flows.set("f-a", "Running", taskStatusCount=counts)


def answer(flows: Flows, *, succeeded: bool) -> None:
    asked, flows.driver.probes = flows.driver.probes, []
    for probe in asked:
        said = ProbeAnswered(probe_id=probe.id, key=probe.key, succeeded=succeeded)
        flows.gateway.stimuli.append(said)
    flows.scenario.settle()


def test_a_job_starts_when_all_pods_of_a_task_are_in_a_phase(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), waits_for(taskStatusList=[{"taskName": "main", "phase": "Running"}]))
    flows.set("f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 1, "Pending": 1}}})
    assert flows.jobs() == ["f-a"]
    flows.set("f-a", "Running", taskStatusCount={"main": {"phase": {"Running": 2}}})

    assert flows.jobs() == ["f-a", "f-b"]


@pytest.mark.parametrize(
    ("probe", "path", "headers"),
    [
        ({"tcpSocketList": [{"taskName": "main", "port": 80}]}, "", ()),
        ({"tcpSocketList": [{"port": 80}]}, "", ()),
        ({"httpGetList": [{"taskName": "main", "port": 80, "path": "ok"}]}, "/ok", ()),
        (
            {"httpGetList": [{"port": 80, "httpHeader": {"name": "X-A", "value": "b"}}]},
            "/",
            (("X-A", "b"),),
        ),
    ],
)
def test_a_job_starts_when_every_pod_answers(
    flows: Flows, probe: Manifest, path: str, headers: tuple[tuple[str, str], ...]
):
    flows.template("a", "b")
    flows.submit(step("a"), waits_for(**probe))
    at_work(flows)
    assert [(p.host, p.port, p.path, p.headers) for p in flows.driver.probes] == [
        (f"10.0.0.{index}", 80, path, headers) for index in range(2)
    ]
    answer(flows, succeeded=False)
    assert flows.jobs() == ["f-a"]
    assert flows.driver.probes == []
    flows.driver.wait(1)
    assert len(flows.driver.probes) == 2
    answer(flows, succeeded=True)

    assert flows.jobs() == ["f-a", "f-b"]


def test_nobody_is_asked_before_all_pods_run(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), waits_for(tcpSocketList=[{"taskName": "main", "port": 80}]))
    at_work(flows, running=1)

    assert flows.driver.probes == []


def test_a_completed_job_satisfies_a_probe_too(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), waits_for(tcpSocketList=[{"taskName": "main", "port": 80}]))
    flows.set("f-a", "Completed")

    assert flows.jobs() == ["f-a", "f-b"]


def test_a_probe_of_a_task_that_the_job_has_not_waits_for_its_end(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), waits_for(taskStatusList=[{"taskName": "x", "phase": "Running"}]))
    at_work(flows)
    assert flows.jobs() == ["f-a"]
    flows.set("f-a", "Completed")

    assert flows.jobs() == ["f-a", "f-b"]


def test_an_unanswered_probe_is_asked_again_but_not_in_a_hurry(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), waits_for(tcpSocketList=[{"taskName": "main", "port": 80}]))
    at_work(flows)
    for _ in range(40):
        flows.driver.wait(0.25)

    assert 20 <= len(flows.driver.probes) <= 24


def test_a_new_core_asks_for_nothing(flows: Flows):
    flows.template("a", "b")
    flows.submit(step("a"), step("b", "a"))
    flows.set("f-a", "Running")
    asked = len(flows.gateway.applied)
    flows.driver.start()
    flows.driver.settle()

    assert len(flows.gateway.applied) == asked
