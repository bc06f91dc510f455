"""The life of one pod on a virtual node: start, report, restart, stop, forget.

One task per pod. Reports are patches of the status with the pod's uid, so that a pod of the
same name is never touched; an API server that is away is waited for.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stromboli.api import kinds
from stromboli.api.core.pod import Pod
from stromboli.kube import Backoff, KubeClient
from stromboli.kube.errors import Conflict, Invalid, KubeError, NotFound
from stromboli.kube.wire import PatchType
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.kubelets import statuses
from stromboli.sandbox.kubelets.runtimes import Runtime

_MANAGER = "stromboli-kubelet"
_RESTART_PAUSE_S = 0.5

_clock = Clock()
_addresses: Iterator[int] = itertools.count(1)


def _next_address() -> str:
    number = next(_addresses)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


class _Over(Exception):
    """The pod is not there any more, or another one of its name is."""


@dataclass(slots=True)
class PodLife:
    """Runs one pod to its end."""

    kube: KubeClient
    runtime: Runtime
    pod: Pod
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        with contextlib.suppress(_Over):
            if self.pod.status.phase not in {"Succeeded", "Failed"} and not self.stopping.is_set():
                await self._live()
            await self.stopping.wait()
            await self._remove()

    async def _live(self) -> None:
        work = asyncio.create_task(self._work())
        stop = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
            await asyncio.wait({work, stop})
        if not work.cancelled() and (problem := work.exception()) is not None:
            raise problem

    async def _work(self) -> None:
        restarts = 0
        try:
            await self.runtime.prepare(self.pod)
        except OSError as problem:
            await self._report(
                statuses.refused(reason="CreateContainerError", message=str(problem))
            )
            return
        address = _next_address()
        while True:
            started = _clock.timestamp()
            await self._report(
                statuses.running(self.pod, now=started, restarts=restarts, pod_ip=address)
            )
            code = await self.runtime.run(self.pod)
            policy = self.pod.spec.restart_policy or "Always"
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                report = statuses.ended(
                    self.pod,
                    now=_clock.timestamp(),
                    started=started,
                    restarts=restarts,
                    exit_code=code,
                )
                await self._report(report)
                return
            restarts += 1
            await asyncio.sleep(_RESTART_PAUSE_S)

    async def _report(self, body: dict[str, Any]) -> None:
        meta = self.pod.metadata
        patch = {"metadata": {"uid": meta.uid}, **body}
        backoff = Backoff(first_s=0.1, max_s=2.0, rng=random.Random(meta.uid))  # noqa: S311
        while True:
            try:
                await self.kube.patch(
                    kinds.POD,
                    meta.namespace,
                    meta.name,
                    patch,
                    patch_type=PatchType.MERGE,
                    subresource="status",
                    field_manager=_MANAGER,
                )
            except (NotFound, Conflict, Invalid) as gone:
                raise _Over from gone
            except KubeError:
                await asyncio.sleep(backoff.next_delay_s())
            else:
                return

    async def _remove(self) -> None:
        """Its containers have stopped: only now may the object go."""
        meta = self.pod.metadata
        backoff = Backoff(first_s=0.1, max_s=2.0, rng=random.Random(meta.uid))  # noqa: S311
        while True:
            try:
                await self.kube.delete(
                    kinds.POD, meta.namespace, meta.name, uid=meta.uid, grace_period_s=0
                )
            except (NotFound, Conflict):
                return
            except KubeError:
                await asyncio.sleep(backoff.next_delay_s())
            else:
                return
