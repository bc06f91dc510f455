"""What a plugin is, and what it works on: a pod that is about to be made."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, runtime_checkable

import msgspec

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.numerals import as_number

__all__ = [
    "Demanding",
    "JobPlugin",
    "NeededObject",
    "NeededSecret",
    "PodDraft",
    "addresses_of",
    "hosts_of",
    "port_of",
    "task_of",
]

_HIGHEST_PORT: Final = 65535


class NeededObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that must be there before the pods are; the job will own it."""

    kind: str
    name: str
    body: dict[str, Any]
    """Everything but apiVersion, kind and metadata."""
    follows_job: bool = False
    """It is brought up to date when the job changes, as when tasks get more replicas."""


class NeededSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret whose contents are made where nobody sees them."""

    name: str
    recipe: str
    parameters: dict[str, str]

    kind: str = "secret"


@dataclass(slots=True, frozen=True)
class PodDraft:
    """A pod as plain JSON: fields that we do not know pass through untouched."""

    task: TaskSpec
    index: int
    metadata: OpaqueObject
    spec: OpaqueObject

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def containers(self) -> list[OpaqueObject]:
        return _objects(self.spec, "containers")

    @property
    def all_containers(self) -> Iterator[OpaqueObject]:
        """Those that initialise included."""
        yield from _objects(self.spec, "initContainers")
        yield from self.containers

    def add_volume(self, volume: OpaqueObject) -> None:
        _append(self.spec, "volumes", volume)

    def mount(self, container: OpaqueObject, mount: OpaqueObject) -> None:
        _append(container, "volumeMounts", mount)

    def add_env(self, container: OpaqueObject, variable: OpaqueObject) -> None:
        _append(container, "env", variable)

    def env_of(self, container: OpaqueObject, name: str) -> str | None:
        """The value of a variable that is written out; None if it is not there."""
        for variable in _objects(container, "env"):
            if variable.get("name") == name:
                return str(variable.get("value") or "")
        return None

    def open_port(self, container: OpaqueObject, name: str, port: int) -> None:
        """Unless the container names that port already."""
        ports = _objects(container, "ports")
        if all(known.get("containerPort") != port for known in ports):
            _append(container, "ports", {"name": name, "containerPort": port})

    def add_init_container(self, container: OpaqueObject) -> None:
        _append(self.spec, "initContainers", container)


class JobPlugin(Protocol):
    """Made from the job's arguments for it; pure.

    An entry point of a plugin names a callable that takes these arguments, such as the class
    itself. It is called anew for every decision, so it keeps nothing and asks nobody.
    """

    @property
    def name(self) -> str: ...

    def dress(self, job: Job, pod: PodDraft) -> None:
        """Put what is the plugin's on a pod that is about to be made."""
        ...

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:
        """What must exist before the job's pods."""
        ...


@runtime_checkable
class Demanding(Protocol):
    """A plugin that not every job can have."""

    def lacks(self, job: Job) -> str:
        """What the job does not have and the plugin needs, in a sentence; empty if nothing."""
        ...


def hosts_of(job: Job, task: TaskSpec) -> list[tuple[str, str]]:
    """(host name, subdomain) of each pod of a task.

    A template with a host name of its own has that one name for all of its pods.
    """
    spec = task.template.get("spec")
    template = cast("dict[str, Any]", spec) if isinstance(spec, dict) else {}
    subdomain = str(template.get("subdomain") or job.metadata.name)
    hostname = template.get("hostname")
    if hostname:
        return [(str(hostname), subdomain)]
    stem = f"{job.metadata.name}-{task.name}"
    return [(f"{stem}-{index}", subdomain) for index in range(task.replicas)]


def addresses_of(job: Job, task: TaskSpec) -> list[str]:
    """The domain name of each pod of a task."""
    return [f"{host}.{subdomain}" for host, subdomain in hosts_of(job, task)]


def task_of(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def port_of(text: str, default: str) -> int:
    """The port that an argument names, or the default where that is no port."""
    port = as_number(text)
    return port if port is not None and 0 < port <= _HIGHEST_PORT else int(default)


def _objects(holder: OpaqueObject, key: str) -> list[OpaqueObject]:
    found = holder.get(key)
    if not isinstance(found, list):
        return []
    return [
        cast("OpaqueObject", item) for item in cast("list[object]", found) if isinstance(item, dict)
    ]


def _append(holder: OpaqueObject, key: str, item: OpaqueObject) -> None:
    """Null stands for an empty list in templates that Go wrote."""
    holder[key] = [*(holder.get(key) or []), item]
