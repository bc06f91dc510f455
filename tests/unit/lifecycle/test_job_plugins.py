"""What each job plugin puts on pods and around them, and how others add one of their own."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.wire import read_object
from stromboli.lifecycle.plugins import (
    ENTRY_POINTS,
    IN_TREE,
    NeededObject,
    known_plugins,
    plugins_of,
    registry,
)
from stromboli.lifecycle.pods import build_pod
from stromboli.testkit import sample_jobs
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import Manifest, task


def a_job(*tasks: Manifest, **spec: Any) -> Job:
    manifest = sample_jobs.job("j", *tasks, **spec)
    metadata = {**manifest["metadata"], "namespace": "default", "uid": "u"}
    return read_object(kinds.VC_JOB, {**manifest, "metadata": metadata})


def pod_of(job: Job, task_name: str, index: int = 0) -> Manifest:
    (chosen,) = [task for task in job.spec.tasks if task.name == task_name]
    return build_pod(job, chosen, index, plugins=plugins_of(job))


def env_of(pod: Manifest, container: int = 0) -> dict[str, str]:
    found = pod["spec"]["containers"][container].get("env", [])
    return {variable["name"]: variable.get("value", "") for variable in found}


def test_the_plugins_are_volcanos():
    assert sorted(IN_TREE) == [
        *("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
    ]
    assert all(IN_TREE[name]([]).name == name for name in IN_TREE)


# tensorflow


def test_tensorflow_tells_every_container_the_cluster_and_its_place():
    job = a_job(task("ps", 1), task("worker", 2), task("sidecar", 1), plugins={"tensorflow": []})
    cluster = {"ps": ["j-ps-0.j:2222"], "worker": ["j-worker-0.j:2222", "j-worker-1.j:2222"]}

    def config(name: str, index: int = 0) -> Any:
        return msgspec.json.decode(env_of(pod_of(job, name, index))["TF_CONFIG"])

    assert config("worker", 1) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert config("ps") == {"cluster": cluster, "task": {"type": "ps", "index": 0}}
    assert config("sidecar")["task"] == {"type": "", "index": 0}


def test_tensorflow_knows_tasks_by_the_names_that_the_job_gives_them():
    arguments = ["--ps=server", "--worker", "trainer", "--chief=boss", "--port=3333"]
    job = a_job(task("server", 1), task("boss", 1), plugins={"tensorflow": arguments})
    config = msgspec.json.decode(env_of(pod_of(job, "boss"))["TF_CONFIG"])

    assert config == {
        "cluster": {"ps": ["j-server-0.j:3333"], "chief": ["j-boss-0.j:3333"]},
        "task": {"type": "chief", "index": 0},
    }


def test_tensorflow_leaves_a_pod_alone_that_is_alone():
    assert env_of(pod_of(a_job(task("worker", 1), plugins={"tensorflow": []}), "worker")) == {}


# pytorch


def test_pytorch_gives_ranks_and_the_address_of_the_master():
    job = a_job(task("master", 1), task("worker", 2), plugins={"pytorch": []})
    worker = pod_of(job, "worker", 1)

    assert env_of(pod_of(job, "master")) == {
        "MASTER_ADDR": "j-master-0.j",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "3",
        "RANK": "0",
    }
    assert env_of(worker)["RANK"] == "2"
    assert worker["spec"]["containers"][0]["ports"] == [
        {"name": "pytorchjob-port", "containerPort": 23456}
    ]
    assert "initContainers" not in worker["spec"]


def test_pytorch_opens_no_port_twice_and_needs_a_master():
    made = task("worker", 1)
    made["template"]["spec"]["containers"][0]["ports"] = [{"name": "mine", "containerPort": 99}]
    with_master = a_job(task("master", 1), made, plugins={"pytorch": ["--port=99"]})
    without = a_job(task("worker", 2), plugins={"pytorch": []})

    (container,) = pod_of(with_master, "worker")["spec"]["containers"]
    assert container["ports"] == [{"name": "mine", "containerPort": 99}]
    assert env_of(pod_of(without, "worker")) == {}


def test_pytorch_workers_can_wait_for_their_master():
    arguments = ["--wait-master-enabled=true", "--wait-master-timeout=60"]
    job = a_job(task("master", 1), task("worker", 1), plugins={"pytorch": arguments})
    (waiting,) = pod_of(job, "worker")["spec"]["initContainers"]

    assert waiting["name"] == "wait-for-master"
    assert waiting["image"] == "busybox:1.36.1"
    assert waiting["command"][:2] == ["sh", "-c"]
    assert "nc -z -w 1 j-master-0.j 23456" in waiting["command"][2]
    assert "left=60" in waiting["command"][2]
    assert "initContainers" not in pod_of(job, "master")["spec"]


# mpi


def test_mpi_tells_the_master_its_workers_and_opens_the_port_everywhere():
    master = task("master", 1)
    master["template"]["spec"]["initContainers"] = [{"name": "before"}]
    job = a_job(master, task("worker", 2), plugins={"mpi": ["--port=2022"]})
    spec = pod_of(job, "master")["spec"]
    port = {"name": "mpijob-port", "containerPort": 2022}
    hosts = {"name": "MPI_HOST", "value": "j-worker-0.j,j-worker-1.j"}

    assert spec["initContainers"] == [{"name": "before", "ports": [port], "env": [hosts]}]
    assert spec["containers"][0]["env"] == [hosts]
    (worker,) = pod_of(job, "worker")["spec"]["containers"]
    assert worker["ports"] == [port]
    assert "env" not in worker


def test_mpi_leaves_a_master_without_workers_alone():
    (container,) = pod_of(a_job(task("master", 1), plugins={"mpi": []}), "master")["spec"][
        "containers"
    ]

    assert "ports" not in container


# ray


def test_ray_starts_the_head_and_lets_the_workers_find_it():
    job = a_job(task("head", 1), task("worker", 2), plugins={"ray": ["--port=7000"]})
    (head,) = pod_of(job, "head")["spec"]["containers"]
    (worker,) = pod_of(job, "worker")["spec"]["containers"]

    start = (
        "ray start --head --block --dashboard-host=0.0.0.0 --port=7000"
        " --dashboard-port=8265 --ray-client-server-port=10001"
    )
    assert head["command"] == ["sh", "-c", start]
    assert head["ports"] == [
        {"name": "gcs", "containerPort": 7000},
        {"name": "dashboard", "containerPort": 8265},
        {"name": "client-server", "containerPort": 10001},
    ]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=j-head-0.j:7000"]
    (service,) = plugins_of(job)[0].needs(job)
    assert isinstance(service, NeededObject)
    assert (service.kind, service.name) == ("service", "j-head-svc")
    assert service.body["spec"]["selector"] == {
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/task-spec": "head",
    }
    first = {"name": "gcs", "port": 7000, "targetPort": "gcs", "protocol": "TCP"}
    assert service.body["spec"]["ports"][0] == first


def test_ray_touches_only_the_container_it_is_told():
    job = a_job(
        task("main", 1), task("worker", 1), plugins={"ray": ["--head=main", "--headContainer=x"]}
    )
    (container,) = pod_of(job, "main")["spec"]["containers"]

    assert container["command"] == ["sh", "-c", "sleep 3"]


# hcclrank


def test_hcclrank_counts_masters_first():
    job = a_job(task("master", 2), task("worker", 2), task("other", 1), plugins={"hcclrank": []})

    def rank(name: str, index: int = 0) -> str | None:
        return pod_of(job, name, index)["metadata"]["annotations"].get("hccl/rankIndex")

    assert [rank("master"), rank("master", 1), rank("worker"), rank("worker", 1)] == [
        *("0", "1", "2", "3")
    ]
    assert rank("other") is None


def test_hcclrank_keeps_what_the_template_says():
    annotated, ranked = task("worker", 1), task("master", 1)
    annotated["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "7"}}
    ranked["template"]["spec"]["containers"][0]["env"] = [{"name": "RANK", "value": "5"}]
    job = a_job(annotated, ranked, plugins={"hcclrank": []})

    assert pod_of(job, "worker")["metadata"]["annotations"]["hccl/rankIndex"] == "7"
    assert pod_of(job, "master")["metadata"]["annotations"]["hccl/rankIndex"] == "5"


# Those of others

PLUGIN = """
class Sticker:
    name = "sticker"

    def __init__(self, arguments):
        self.words = " ".join(arguments)

    def dress(self, job, pod):
        pod.metadata["annotations"]["sticker"] = self.words

    def needs(self, job):
        return []


class Broken(Sticker):
    def dress(self, job, pod):
        raise KeyError("glue")


def unwilling(arguments):
    raise RuntimeError("not today")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution as pip installs it: a module and the metadata with its entry points."""
    (tmp_path / "stickers_for_tests.py").write_text(PLUGIN)
    metadata = tmp_path / "stickers-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stickers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{ENTRY_POINTS}]\n"
        "sticker = stickers_for_tests:Sticker\n"
        "broken = stickers_for_tests:Broken\n"
        "unwilling = stickers_for_tests:unwilling\n"
        "absent = stickers_for_tests:Nowhere\n"
        "env = stickers_for_tests:Sticker\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry.forget_installed()
    yield
    sys.modules.pop("stickers_for_tests", None)
    registry.forget_installed()


@pytest.mark.usefixtures("installed")
def test_a_plugin_of_somebody_elses_dresses_pods():
    job = a_job(task("t", 1), plugins={"sticker": ["hello", "there"]})

    assert pod_of(job, "t")["metadata"]["annotations"]["sticker"] == "hello there"
    assert {"sticker", "broken", "env"} <= known_plugins()


@pytest.mark.usefixtures("installed")
def test_nobody_takes_the_place_of_one_of_ours():
    job = a_job(task("t", 1), plugins={"env": []})

    assert "VC_TASK_INDEX" in env_of(pod_of(job, "t"))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "plugin broken failed to dress pod j-t-0: KeyError: 'glue'"),
        ("unwilling", "plugin unwilling failed to start: RuntimeError: not today"),
        ("absent", "plugin absent failed to start: AttributeError"),
    ],
)
def test_a_broken_plugin_harms_only_the_job_that_asks_for_it(
    scenario: JobScenario, name: str, words: str
):
    scenario.submit(sample_jobs.job("j", task("t", 1), plugins={name: []}))
    scenario.enqueue()
    scenario.running(sample_jobs.job("other", task("t", 1), plugins={"sticker": []}))

    state = scenario.status("j")["state"]
    assert state["reason"] == "PluginError"
    assert state["message"].startswith(words)
    assert scenario.phase("other") == "Running"
