"""`svc`: the job's pods find each other by name, and know the names of all.

A headless Service makes `<pod>.<job>` resolve. A ConfigMap holds the host names per task, as
files under /etc/volcano and as environment variables; it follows the job's replicas. A
NetworkPolicy lets only the job's own pods in.
"""

from collections.abc import Sequence
from typing import Final

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.wellknown import JOB_NAME, JOB_NAMESPACE
from stromboli.lifecycle.arguments import is_true, read_arguments
from stromboli.lifecycle.plugins.drafts import (
    NeededObject,
    NeededSecret,
    PodDraft,
    addresses_of,
)
from stromboli.lifecycle.pod_parts import volume_name

__all__ = ["SvcPlugin"]

_MOUNT_PATH: Final = "/etc/volcano"
_DEFAULTS: Final = {
    "publish-not-ready-addresses": "false",
    "disable-network-policy": "false",
    "inject-hosts-env": "true",
}


class SvcPlugin:
    name = "svc"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS, switches=tuple(_DEFAULTS))
        self._publish_not_ready = is_true(values["publish-not-ready-addresses"])
        self._isolate = not is_true(values["disable-network-policy"])
        self._inject_hosts = is_true(values["inject-hosts-env"])

    def dress(self, job: Job, pod: PodDraft) -> None:
        pod.spec["hostname"] = pod.spec.get("hostname") or pod.name
        pod.spec["subdomain"] = pod.spec.get("subdomain") or job.metadata.name
        config_map = _config_map_name(job)
        volume = volume_name(config_map)
        for container in pod.all_containers:
            if self._inject_hosts:
                for task in job.spec.tasks:
                    for variable in _variables(task):
                        reference = {"name": config_map, "key": variable}
                        pod.add_env(
                            container,
                            {"name": variable, "valueFrom": {"configMapKeyRef": reference}},
                        )
            pod.mount(container, {"name": volume, "mountPath": _MOUNT_PATH})
        pod.add_volume({"name": volume, "configMap": {"name": config_map}})

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:
        selector = {JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace}
        service = {
            "clusterIP": "None",
            "selector": selector,
            "publishNotReadyAddresses": self._publish_not_ready,
        }
        data: dict[str, str] = {}
        for task in job.spec.tasks:
            hosts = addresses_of(job, task)
            hosts_key, number_key = _variables(task)
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
            data[hosts_key] = ",".join(hosts)
            data[number_key] = str(len(hosts))
        needed: list[NeededObject | NeededSecret] = [
            NeededObject(
                kind="configmap", name=_config_map_name(job), body={"data": data}, follows_job=True
            ),
            NeededObject(kind="service", name=job.metadata.name, body={"spec": service}),
        ]
        if self._isolate:
            pods = {"matchLabels": selector}
            policy = {
                "podSelector": pods,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": pods}]}],
            }
            needed.append(
                NeededObject(kind="networkpolicy", name=job.metadata.name, body={"spec": policy})
            )
        return needed


def _config_map_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _variables(task: TaskSpec) -> tuple[str, str]:
    stem = f"VC_{task.name.upper().replace('-', '_')}"
    return f"{stem}_HOSTS", f"{stem}_NUM"
