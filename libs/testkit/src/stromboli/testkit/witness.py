"""Somebody who was there: every version of every object of a kind, seen at the API server.

Whether something was done once or twice can't be told from how things are in the end; it can
from the versions in between. The witness watches by itself, and no service knows of it.
"""

import contextlib
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.kube import KubeClient
from stromboli.kube.reflector import (
    Changed,
    ListDone,
    ListPage,
    Reflector,
    ReflectorSettings,
)
from stromboli.kube.wire import EventType
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

__all__ = ["Version", "Witness", "witnessing"]


@dataclass(frozen=True)
class Version:
    """One object as it was from one write to the next."""

    name: str
    uid: str
    resource_version: int
    deleted: bool
    object: dict[str, Any]

    def annotation(self, key: str) -> str | None:
        annotations: dict[str, str] = self.object["metadata"].get("annotations") or {}
        return annotations.get(key)

    @property
    def node(self) -> str:
        return self.object["spec"].get("nodeName", "")

    @property
    def is_ending(self) -> bool:
        return "deletionTimestamp" in self.object["metadata"]


@dataclass
class Witness:
    """What was seen, in order."""

    versions: list[Version] = field(default_factory=list[Version])
    lists: int = 0

    @property
    def has_gaps(self) -> bool:
        """Was the history lost on the way? Then versions in between may be missing."""
        return self.lists > 1

    def of(self, name: str) -> list[Version]:
        return [version for version in self.versions if version.name == name]

    def lives(self, name: str) -> list[str]:
        """The uids that this name has had, in order."""
        return list(dict.fromkeys(version.uid for version in self.of(name)))

    def ends(self, name: str) -> list[str]:
        """The uids of this name that were seen to be deleted."""
        return [version.uid for version in self.of(name) if version.deleted]

    def placements(self, name: str) -> list[str]:
        """Every node that the pod was put on, in order; a repeated one is there twice."""
        nodes: list[str] = []
        before = ""
        for version in self.of(name):
            if version.node != before and version.node:
                nodes.append(version.node)
            before = version.node
        return nodes

    def values(self, name: str, annotation: str) -> list[str]:
        """Every value that the annotation was changed to, in order."""
        values: list[str] = []
        for version in self.of(name):
            value = version.annotation(annotation)
            if value is not None and (not values or values[-1] != value):
                values.append(value)
        return values

    async def until_seen(self, name: str, resource_version: str, deadline_s: float = 10.0) -> None:
        """Return when a version of the object that is at least this new was seen."""
        await eventually(
            lambda: any(v.resource_version >= int(resource_version) for v in self.of(name)),
            deadline_s=deadline_s,
            describe=f"the witness to see {name} at {resource_version}",
        )

    async def follow(self, kube: KubeClient, token: str, namespace: str) -> None:
        reflector = Reflector(
            kube,
            kinds.by_token(token),
            rng=random.Random(0),
            settings=ReflectorSettings(namespace=namespace, max_retry_s=0.5),
        )
        async with contextlib.aclosing(reflector.changes()) as changes:
            async for change in changes:
                match change:
                    case ListPage(items):
                        for raw in items:
                            self._note(raw, deleted=False)
                    case Changed(event):
                        self._note(event.object, deleted=event.type is EventType.DELETED)
                    case ListDone():
                        self.lists += 1
                    case _:
                        pass

    def _note(self, raw: msgspec.Raw, *, deleted: bool) -> None:
        found = msgspec.json.decode(raw, type=dict[str, Any])
        metadata = found["metadata"]
        version = int(metadata["resourceVersion"])
        self.versions.append(Version(metadata["name"], metadata["uid"], version, deleted, found))


@contextlib.asynccontextmanager
async def witnessing(
    kube: KubeClient, namespace: str, token: str = "pod"
) -> AsyncGenerator[Witness]:
    """A witness of one kind in one namespace, who misses nothing from here on."""
    witness = Witness()
    async with background(witness.follow(kube, token, namespace)):
        await eventually(lambda: witness.lists > 0, describe="the witness to watch")
        yield witness
