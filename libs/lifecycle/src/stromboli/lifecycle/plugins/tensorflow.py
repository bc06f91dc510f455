"""`tensorflow`: TF_CONFIG tells every container the cluster and its own place in it."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stromboli.api.batch import Job
from stromboli.lifecycle.arguments import read_arguments
from stromboli.lifecycle.plugins.drafts import (
    NeededObject,
    NeededSecret,
    PodDraft,
    addresses_of,
    port_of,
    task_of,
)

__all__ = ["TensorflowPlugin"]

_ROLES: Final = ("ps", "worker", "chief", "evaluator")
"""As TensorFlow calls them; a job may call its tasks otherwise."""
_DEFAULTS: Final = {**{role: role for role in _ROLES}, "port": "2222"}


class TensorflowPlugin:
    name = "tensorflow"

    def __init__(self, arguments: Sequence[str]) -> None:
        values = read_arguments(arguments, _DEFAULTS)
        self._tasks = {role: values[role] for role in _ROLES}
        self._port = port_of(values["port"], _DEFAULTS["port"])

    def dress(self, job: Job, pod: PodDraft) -> None:
        if [task.replicas for task in job.spec.tasks] == [1]:
            return  # it is a cluster of its own
        value = msgspec.json.encode(self._config(job, pod)).decode()
        for container in pod.containers:
            pod.add_env(container, {"name": "TF_CONFIG", "value": value})

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:  # noqa: ARG002 (every plugin gets it)
        return []

    def _config(self, job: Job, pod: PodDraft) -> dict[str, Any]:
        cluster: dict[str, list[str]] = {}
        own_role = ""
        for role, name in self._tasks.items():
            task = task_of(job, name)
            if task is None:
                continue
            if name == pod.task.name:
                own_role = role
            hosts = [f"{address}:{self._port}" for address in addresses_of(job, task)]
            if hosts:
                cluster[role] = hosts
        return {"cluster": cluster, "task": {"type": own_role, "index": pod.index}}
