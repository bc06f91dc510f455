"""What a plugin is, and what it works on: a pod that is about to be made."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.fieldtypes import OpaqueObject

__all__ = ["JobPlugin", "NeededObject", "NeededSecret", "PodDraft", "hosts_of"]


class NeededObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that must be there before the pods are; the job will own it."""

    kind: str
    name: str
    body: dict[str, Any]
    """Everything but apiVersion, kind and metadata."""


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


class JobPlugin(Protocol):
    """Made from the job's arguments for it; pure."""

    @property
    def name(self) -> str: ...

    def dress(self, job: Job, pod: PodDraft) -> None:
        """Put what is the plugin's on a pod that is about to be made."""
        ...

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:
        """What must exist before the job's pods."""
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
