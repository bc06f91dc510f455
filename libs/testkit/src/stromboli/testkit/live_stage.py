"""A stage on real servers: an API server, NATS, a gateway and controllers.

The test is the scheduler and the kubelet, with an administrator's client. There is no grace:
a pod that was never bound to a node is gone when it is deleted. Time passes by itself, so
waiting for what time brings is all that can be done about it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from stromboli.api import kinds
from stromboli.contracts import codec
from stromboli.contracts.streams import HISTORY
from stromboli.kube.errors import KubeError
from stromboli.kube.wire import PatchType
from stromboli.runtime.bus.connection import BusConnection
from stromboli.testkit.bus_contents import stored_messages
from stromboli.testkit.case_pictures import Picture
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.lifecycle_cases import Case, Expectation
from stromboli.testkit.sample_jobs import Manifest, command
from stromboli.testkit.waiting import eventually

__all__ = ["LiveStage", "kinds_looked_at"]

_ALWAYS: Final = ("pod", "vcpodgroup")
_DEADLINE_S: Final = 45.0
_INTERVAL_S: Final = 0.1
_MANAGER: Final = "testkit"


def kinds_looked_at(case: Case) -> tuple[str, ...]:
    """What a case expects something of; to list everything all the time takes its time."""
    found = dict.fromkeys(_ALWAYS)
    for step in case.steps:
        expected = step.detail
        if isinstance(expected, Expectation):
            found |= dict.fromkeys(expected.objects or ())
            found |= dict.fromkeys(place.partition("/")[0] for place in expected.object or ())
            if expected.events or expected.event_count:
                found["event"] = None
    return tuple(found)


@dataclass
class LiveStage:
    """One namespace of a cluster."""

    cluster: ClusterBuilder
    bus: BusConnection
    looked_at: Iterable[str] = _ALWAYS
    restart: Callable[[], Awaitable[None]] | None = None
    job_name: str = ""
    orders: int = 0

    async def make(self, kind: str, manifest: Manifest) -> None:
        await self.cluster.make(kind, manifest)

    async def remove(self, kind: str, name: str) -> None:
        await self.cluster.delete(kind, name)

    async def submit(self, manifest: Manifest) -> None:
        self.job_name = manifest["metadata"]["name"]
        await self.cluster.make("vcjob", manifest)

    async def change_job(self, body: Manifest) -> None:
        await self._patch("vcjob", self.job_name, body)

    async def order(self, action: str) -> None:
        target = await self.cluster.fetch("vcjob", self.job_name)
        assert target is not None
        self.orders += 1
        made = command(f"order-{self.orders}", action, target)
        made["metadata"]["namespace"] = self.cluster.namespace
        await self.cluster.make("command", made)

    async def set_gang(self, phase: str, conditions: list[Manifest]) -> None:
        async def new_gang() -> str | None:
            for name, gang in (await self._objects("vcpodgroup")).items():
                is_waiting = gang.get("status", {}).get("phase", "") in ("", "Pending")
                if is_waiting or phase != "Inqueue":
                    return name
            return None

        name = await eventually(
            new_gang, deadline_s=_DEADLINE_S, describe="a gang", interval_s=_INTERVAL_S
        )
        status: Manifest = {"phase": phase, **({"conditions": conditions} if conditions else {})}
        await self._patch("vcpodgroup", name, {"status": status})

    async def report(self, pods: Callable[[str], bool], status: Manifest) -> None:
        names = [name for name in await self._objects("pod") if pods(name)]
        assert names, "there is no such pod"
        for name in names:
            await self._patch("pod", name, {"status": status}, subresource="status")

    async def release(self) -> None:
        """Nothing ends slowly here."""

    async def pass_time(self, seconds: float) -> None:
        """It does so by itself; whoever expects something of it waits for that."""

    async def crash(self) -> None:
        assert self.restart is not None, "nobody can restart the controllers here"
        await self.restart()

    async def until(self, check: Callable[[Picture], None]) -> Picture:
        async def holds() -> Picture:
            picture = await self._picture()
            check(picture)
            return picture

        return await eventually(
            holds,
            deadline_s=_DEADLINE_S,
            describe="what the case expects",
            interval_s=_INTERVAL_S,
        )

    async def _picture(self) -> Picture:
        job = await self.cluster.fetch("vcjob", self.job_name)
        async with asyncio.TaskGroup() as group:
            listed = {kind: group.create_task(self._objects(kind)) for kind in self.looked_at}
            phases = group.create_task(self._phases())
        return Picture(
            job=job or {},
            phases=phases.result(),
            objects={kind: task.result() for kind, task in listed.items()},
        )

    async def _phases(self) -> list[str]:
        subject = f"vc.history.{self.cluster.namespace}.{self.job_name}"
        messages = await stored_messages(self.bus, HISTORY.name, subject)
        lines = [codec.history.decode(message.payload) for message in messages]
        return [line.detail["to"] for line in lines if line.what == "job.phase"]

    async def _objects(self, token: str) -> dict[str, Manifest]:
        kind = kinds.by_token(token)
        namespace = self.cluster.namespace if kind.namespaced else None
        found: dict[str, Manifest] = {}
        async for page in self.cluster.kube.list_pages(kind, namespace=namespace):
            for raw in page.items:
                item: Manifest = msgspec.json.decode(raw)
                found[item["metadata"]["name"]] = item
        return found

    async def _patch(self, token: str, name: str, body: Manifest, *, subresource: str = "") -> None:
        try:
            await self.cluster.kube.patch(
                kinds.by_token(token),
                self.cluster.namespace,
                name,
                body,
                patch_type=PatchType.MERGE,
                field_manager=_MANAGER,
                subresource=subresource,
            )
        except KubeError as fault:
            raise AssertionError(f"{token} {name} could not be changed: {fault}") from fault
