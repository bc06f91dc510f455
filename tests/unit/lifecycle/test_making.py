"""What is made for a job: its PodGroup, its pods, what its plugins put on and around them."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.wire import read_object, read_template
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.plugins import NeededObject, NeededSecret, plugins_of
from stromboli.lifecycle.podgroups import build_pod_group
from stromboli.lifecycle.pods import build_pod
from stromboli.lifecycle.quota import min_resources, pod_usage
from stromboli.testkit import sample_jobs
from stromboli.testkit.sample_jobs import Manifest, mpi_job, task, tensorflow_job

UID = "9c571015-37c7-4a1a-9604-eaa2248613f2"


def no_priority(name: str) -> int:
    return 0


def typed(manifest: Manifest, **metadata: Any) -> Job:
    known = {**manifest["metadata"], "namespace": "default", "uid": UID, **metadata}
    return read_object(kinds.VC_JOB, {**manifest, "metadata": known})


def a_job(*tasks: Manifest, metadata: Manifest | None = None, **spec: Any) -> Job:
    return typed(sample_jobs.job("j", *tasks, **spec), **(metadata or {}))


def pod_of(job: Job, task_name: str, index: int = 0) -> Manifest:
    (chosen,) = [task for task in job.spec.tasks if task.name == task_name]
    return build_pod(job, chosen, index, plugins=plugins_of(job))


def test_the_pod_group_of_the_mpi_job_is_volcanos():
    """Spec, labels and owner as a real Volcano made them for the same job."""
    group = build_pod_group(typed(mpi_job()), no_priority)
    sent = msgspec.json.decode(msgspec.json.encode(compact_manifest(group)))

    assert sent == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"lm-mpi-job-{UID}",
            "namespace": "default",
            "labels": {"volcano.sh/job-type": "MPI"},
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": "lm-mpi-job",
                    "uid": UID,
                }
            ],
        },
        "spec": {
            "minMember": 4,
            "minResources": {
                "count/pods": "4",
                "cpu": "3500m",
                "limits.cpu": "3500m",
                "pods": "4",
                "requests.cpu": "3500m",
            },
            "minTaskMember": {"mpimaster": 1, "mpiworker": 3},
            "queue": "default",
        },
    }


def with_resources(name: str, replicas: int, resources: Manifest, **fields: Any) -> Manifest:
    made = task(name, replicas, **fields)
    made["template"]["spec"]["containers"][0]["resources"] = resources
    return made


def test_min_resources_are_quota_usage_with_devices_by_both_names():
    amounts = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": "1"}
    resources = {"requests": amounts, "limits": amounts}
    job = a_job(with_resources("a", 1, resources), with_resources("b", 1, resources))

    assert min_resources(job, no_priority) == {
        "count/pods": "2",
        "pods": "2",
        "cpu": "2",
        "memory": "2000Mi",
        "requests.cpu": "2",
        "requests.memory": "2000Mi",
        "limits.cpu": "2",
        "limits.memory": "2000Mi",
        "requests.nvidia.com/gpu": "2",
        "nvidia.com/gpu": "2",
    }


def test_a_limit_is_the_request_where_that_is_missing():
    job = a_job(with_resources("a", 1, {"limits": {"cpu": "2"}}))

    assert min_resources(job, no_priority)["requests.cpu"] == "2"


def test_a_pod_needs_the_most_of_what_it_needs_at_any_time():
    def container(cpu: str, **more: Any) -> Manifest:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "containers": [container("2"), container("1")],
    }

    assert pod_usage(read_template({"spec": spec}).spec)["cpu"] == "6"


@pytest.mark.parametrize(("min_available", "cpu"), [(1, "4"), (2, "8"), (3, "9"), (4, "10")])
def test_the_gang_counts_its_most_important_tasks_first(min_available: int, cpu: str):
    low, high = task("low", 2, cpu="1"), task("high", 2, cpu="4")
    high["template"]["spec"]["priorityClassName"] = "urgent"
    job = a_job(low, high, minAvailable=min_available)

    usage = min_resources(job, lambda name: 1000 if name == "urgent" else 0)

    assert usage["cpu"] == cpu


def test_a_gang_of_all_minimums_takes_these_and_fills_up_by_priority():
    job = a_job(
        task("a", 3, cpu="1", minAvailable=1),
        task("b", 3, cpu="10", minAvailable=1),
        minAvailable=4,
    )

    assert min_resources(job, no_priority)["cpu"] == "13"


def test_partitions_become_sub_groups():
    policy = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    job = a_job(task("t", 4, partitionPolicy=policy))
    spec = build_pod_group(job, no_priority).spec

    assert spec.min_task_member == {"t": 2}
    assert spec.sub_group_policy[0].sub_group_size == 2
    assert pod_of(job, "t", 3)["metadata"]["labels"]["volcano.sh/partition-id"] == "1"


def test_a_pod_knows_its_job_its_task_and_its_place():
    job = a_job(
        task("t", 2),
        metadata={
            "labels": {"volcano.sh/preemptable": "true"},
            "annotations": {
                "volcano.sh/preemptable": "false",
                "volcano.sh/jdb-min-available": "1",
                "volcano.sh/jdb-max-unavailable": "2",
                "unrelated": "x",
            },
        },
        priorityClassName="high",
        queue="research",
    )
    pod = pod_of(job, "t", 1)

    assert pod["metadata"] == {
        "name": "j-t-1",
        "namespace": "default",
        "labels": {
            "volcano.sh/task-index": "1",
            "volcano.sh/task-spec": "t",
            "volcano.sh/job-name": "j",
            "volcano.sh/job-namespace": "default",
            "volcano.sh/queue-name": "research",
            "volcano.sh/preemptable": "true",
        },
        "annotations": {
            "volcano.sh/task-index": "1",
            "volcano.sh/task-spec": "t",
            "scheduling.k8s.io/group-name": f"j-{UID}",
            "volcano.sh/job-name": "j",
            "volcano.sh/queue-name": "research",
            "volcano.sh/job-version": "0",
            "volcano.sh/template-uid": "j-t",
            "volcano.sh/job-retry-count": "0",
            "volcano.sh/preemptable": "false",
            "volcano.sh/jdb-min-available": "1",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "j",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["spec"]["restartPolicy"] == "OnFailure"


def test_what_the_template_says_is_kept_and_the_template_is_not_changed():
    made = task("t", 1)
    made["template"]["metadata"] = {"labels": {"app": "x"}, "annotations": None}
    made["template"]["spec"] |= {"schedulerName": "other", "aFieldOfTheFuture": {"a": 1}}
    job = a_job(made, plugins={"svc": [], "env": [], "ssh": []})
    first, second = pod_of(job, "t"), pod_of(job, "t")

    assert first == second
    assert first["metadata"]["labels"]["app"] == "x"
    assert first["spec"]["schedulerName"] == "other"
    assert first["spec"]["aFieldOfTheFuture"] == {"a": 1}


def test_claims_of_the_job_are_mounted_once_in_every_container():
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "claim"},
        {"mountPath": "/again", "volumeClaimName": "claim"},
    ]
    spec = pod_of(a_job(task("t", 1), volumes=volumes), "t")["spec"]

    (volume,) = spec["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "claim"}
    assert spec["containers"][0]["volumeMounts"] == [{"name": volume["name"], "mountPath": "/data"}]


def needs(job: Job) -> dict[str, NeededObject | NeededSecret]:
    found: Sequence[NeededObject | NeededSecret] = [
        need for plugin in plugins_of(job) for need in plugin.needs(job)
    ]
    return {f"{need.kind}/{need.name}": need for need in found}


def test_env_tells_every_container_its_index():
    job = typed(tensorflow_job())
    (container,) = pod_of(job, "worker", 1)["spec"]["containers"]

    assert {"name": "VK_TASK_INDEX", "value": "1"} in container["env"]
    assert {"name": "VC_TASK_INDEX", "value": "1"} in container["env"]


def test_svc_names_all_hosts_in_files_and_variables():
    made = needs(typed(tensorflow_job("tf")))
    config, service = made["configmap/tf-svc"], made["service/tf"]

    assert isinstance(config, NeededObject)
    assert config.body == {
        "data": {
            "ps.host": "tf-ps-0.tf",
            "VC_PS_HOSTS": "tf-ps-0.tf",
            "VC_PS_NUM": "1",
            "worker.host": "tf-worker-0.tf\ntf-worker-1.tf",
            "VC_WORKER_HOSTS": "tf-worker-0.tf,tf-worker-1.tf",
            "VC_WORKER_NUM": "2",
        }
    }
    assert isinstance(service, NeededObject)
    assert service.body == {
        "spec": {
            "clusterIP": "None",
            "selector": {"volcano.sh/job-name": "tf", "volcano.sh/job-namespace": "default"},
            "publishNotReadyAddresses": False,
        }
    }


def test_svc_mounts_the_hosts_and_gives_the_pod_its_name():
    spec = pod_of(typed(tensorflow_job("tf")), "ps")["spec"]

    assert (spec["hostname"], spec["subdomain"]) == ("tf-ps-0", "tf")
    assert spec["volumes"] == [{"name": "tf-svc", "configMap": {"name": "tf-svc"}}]
    (container,) = spec["containers"]
    assert container["volumeMounts"] == [{"name": "tf-svc", "mountPath": "/etc/volcano"}]
    reference = {"configMapKeyRef": {"name": "tf-svc", "key": "VC_WORKER_HOSTS"}}
    assert {"name": "VC_WORKER_HOSTS", "valueFrom": reference} in container["env"]


def test_svc_without_hosts_in_the_environment_still_mounts_them():
    job = a_job(task("my-task", 1), plugins={"svc": ["--inject-hosts-env=false"]})
    (container,) = pod_of(job, "my-task")["spec"]["containers"]
    config = needs(job)["configmap/j-svc"]

    assert "env" not in container
    assert container["volumeMounts"]
    assert isinstance(config, NeededObject)
    assert "my_task.host" in config.body["data"]


def test_a_template_with_a_host_name_of_its_own_has_one_host():
    made = task("t", 3)
    made["template"]["spec"] |= {"hostname": "leader", "subdomain": "net"}
    config = needs(a_job(made, plugins={"svc": []}))["configmap/j-svc"]

    assert isinstance(config, NeededObject)
    assert config.body["data"]["VC_T_HOSTS"] == "leader.net"
    assert config.body["data"]["VC_T_NUM"] == "1"


def test_ssh_asks_for_a_key_pair_and_says_nothing_secret():
    job = a_job(task("t", 2), plugins={"ssh": ["--ssh-port=2022", "--ssh-private-key=TOP SECRET"]})
    secret = needs(job)["secret/j-ssh"]

    assert isinstance(secret, NeededSecret)
    assert secret.recipe == "ssh-key-pair"
    assert secret.parameters == {
        "config": (
            "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
            "Host j-t-0\n  HostName j-t-0.j\n  Port 2022\n"
            "Host j-t-1\n  HostName j-t-1.j\n  Port 2022\n"
        )
    }


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [([], "/root/.ssh", 0o600), (["--ssh-key-file-path=/home/me/.ssh"], "/home/me/.ssh", 0o644)],
)
def test_ssh_mounts_the_key_where_it_is_looked_for(arguments: list[str], path: str, mode: int):
    spec = pod_of(a_job(task("t", 1), plugins={"ssh": arguments}), "t")["spec"]
    (volume,) = spec["volumes"]

    assert volume["secret"]["defaultMode"] == mode
    assert volume["secret"]["items"][0] == {"key": "id_rsa", "path": ".ssh/id_rsa"}
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "j-ssh", "mountPath": path, "subPath": ".ssh"}
    ]


def test_how_long_a_job_says_it_will_run_is_told_to_the_scheduler():
    manifest = mpi_job()
    manifest["spec"]["runningEstimate"] = "1h30m"

    annotations = build_pod_group(typed(manifest), no_priority).metadata.annotations

    assert annotations["stromboli.sh/running-estimate"] == "1h30m"
    assert build_pod_group(typed(mpi_job()), no_priority).metadata.annotations == {}


@pytest.mark.parametrize("name", ["b" * 55, "my.job", "x" * 63, "a.b-" * 13 + "z"])
def test_volumes_of_pods_have_names_that_kubernetes_takes(name: str):
    """Of a claim, of svc and of ssh; what they refer to keeps its name."""
    volumes = [
        {"mountPath": "/a", "volumeClaim": {}},
        {"mountPath": "/b", "volumeClaimName": "mine"},
    ]
    plugins: Manifest = {"svc": [], "ssh": []}
    job = typed(sample_jobs.job(name, task("w", 1), volumes=volumes, plugins=plugins))
    pod = build_pod(job, job.spec.tasks[0], 0, plugins=plugins_of(job))
    names = [volume["name"] for volume in pod["spec"]["volumes"]]
    mounted = [mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]

    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", one) for one in names), names
    assert sorted(names) == sorted(mounted)
    assert len(set(names)) == 4
    assert {"name": f"{name}-svc"} in [volume.get("configMap") for volume in pod["spec"]["volumes"]]


def test_a_queue_whose_name_is_too_long_for_a_label_is_in_the_annotation():
    queue = "q" * 64
    job = a_job(task("w", 1), queue=queue)
    metadata = build_pod(job, job.spec.tasks[0], 0, plugins=[])["metadata"]

    assert "volcano.sh/queue-name" not in metadata["labels"]
    assert metadata["annotations"]["volcano.sh/queue-name"] == queue
