"""The life of one pod on a virtual node: start, report, restart, stop, forget.

One task per pod. Reports are patches of the status with the pod's uid, so that a pod of the
same name is never touched; an API server that is away is waited for. A pod that ran before the
kubelet did (it was killed and started again) is neither started twice nor taken for ended: its
status and what the runtime finds say where its life goes on.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.api.core.pod import Pod
from stromboli.kube import Backoff, KubeClient
from stromboli.kube.errors import Conflict, Invalid, KubeError, NotFound
from stromboli.kube.wire import PatchType
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.kubelets import statuses
from stromboli.sandbox.kubelets.containers import Ended
from stromboli.sandbox.kubelets.runtimes import Runtime

_MANAGER = "stromboli-kubelet"
_RESTART_PAUSE_S = 0.5
_MAX_PAUSE_S = 10.0

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
    """As it was when its life here began; what it says of earlier is where it goes on."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        with contextlib.suppress(_Over):
            if self.stopping.is_set():
                # Nothing is begun any more; what an earlier kubelet began is ended.
                await self.runtime.stop(self.pod)
            elif self.pod.status.phase not in {"Succeeded", "Failed"}:
                await self._live()
            await self.stopping.wait()
            await self._remove()
        if self.stopping.is_set():
            self.runtime.discard(self.pod)

    async def _live(self) -> None:
        """Until it has ended or has been stopped, also by the end of the kubelet itself."""
        work = asyncio.create_task(self._work())
        stop = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
            await asyncio.wait({work, stop})
            await self.runtime.stop(self.pod)
        if not work.cancelled() and (problem := work.exception()) is not None:
            raise problem

    async def _work(self) -> None:
        status = next(iter(self.pod.status.container_statuses), None)
        reported = -1 if status is None else status.restart_count
        last = _last_end(self.pod)
        try:
            await self.runtime.prepare(self.pod)
        except OSError as problem:
            await self._report(
                statuses.refused(reason="CreateContainerError", message=str(problem))
            )
            return
        address = self.pod.status.pod_ip or self.runtime.local_address or _next_address()
        attempt = max(reported, self.runtime.newest_attempt(self.pod), 0)
        while True:
            started = _started(self.pod, attempt)
            if not started:
                started = _clock.timestamp()
                await self._report(
                    statuses.running(
                        self.pod, now=started, restarts=attempt, pod_ip=address, last=last
                    )
                )
            end = await self.runtime.run(self.pod, attempt)
            now = _clock.timestamp()
            end = msgspec.structs.replace(
                end, started=end.started or started, finished=end.finished or now
            )
            policy = self.pod.spec.restart_policy or "Always"
            if policy == "Never" or (policy == "OnFailure" and end.code == 0):
                await self._report(
                    statuses.ended(self.pod, end, now=now, restarts=attempt, last=last)
                )
                return
            last = end
            await self._report(statuses.pausing(self.pod, now=now, restarts=attempt, last=last))
            await asyncio.sleep(min(_RESTART_PAUSE_S * 2 ** min(attempt, 10), _MAX_PAUSE_S))
            attempt += 1

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


def _started(pod: Pod, attempt: int) -> str:
    """When an attempt began, if the pod's status already tells that it runs."""
    for status in pod.status.container_statuses[:1]:
        if status.restart_count == attempt and status.state.running is not None:
            return status.state.running.started_at or ""
    return ""


def _last_end(pod: Pod) -> Ended | None:
    for status in pod.status.container_statuses[:1]:
        end = status.last_state.terminated
        if end is not None:
            return Ended(end.exit_code, end.started_at or "", end.finished_at or "", end.reason)
    return None
