"""Look up a queue that STATE does not show yet, once, quickly, and not again and again.

A file with a Queue and its Job in it is applied within milliseconds, and the Job's review may
come before the Queue's fact. So a queue that nobody has heard of is asked for at the API server:
this is admission's only right there. Requests for the same queue share one answer; what was
found is kept until STATE should show it, what was not is believed for a moment, so that a
thousand jobs for a queue that does not exist are not a thousand requests.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stromboli.admission.errors import QueueOutOfReach
from stromboli.api import kinds
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.scheduling import Queue
from stromboli.api.wire import decode_object
from stromboli.kube import KubeClient
from stromboli.kube.errors import BadCall, KubeError
from stromboli.runtime.clock import Clock
from stromboli.runtime.telemetry import counter

__all__ = ["QueueLookup"]

_FOUND_KEPT_S: Final = 5.0
_MAX_KEPT: Final = 1024

_lookups = counter(
    "stromboli.admission.queue.lookups", "Queues asked for at the API server", labels=["outcome"]
)


@dataclass(slots=True)
class QueueLookup:
    """Answers from the API server, briefly remembered."""

    kube: KubeClient
    clock: Clock
    timeout_s: float = 1.0
    missing_kept_s: float = 0.5
    _known: dict[str, tuple[float, Queue | None]] = field(
        default_factory=dict[str, tuple[float, Queue | None]]
    )
    _asking: dict[str, "asyncio.Task[Queue | None]"] = field(
        default_factory=dict[str, "asyncio.Task[Queue | None]"]
    )

    async def find(self, names: Iterable[str]) -> dict[str, Queue]:
        """Those of the queues that exist; raises QueueOutOfReach if nobody could say."""
        found: dict[str, Queue] = {}
        for name in sorted(names):
            queue = await self._find(name)
            if queue is not None:
                found[name] = queue
        return found

    async def _find(self, name: str) -> Queue | None:
        known = self._known.get(name)
        if known is not None and self.clock.monotonic() < known[0]:
            return known[1]
        asking = self._asking.get(name)
        if asking is None:
            asking = asyncio.create_task(self._ask(name), name="look up a queue")
            self._asking[name] = asking
            asking.add_done_callback(lambda done: self._answered(name, done))
        # One review that is cancelled must not take the answer from the others.
        return await asyncio.shield(asking)

    def _answered(self, name: str, asking: "asyncio.Task[Queue | None]") -> None:
        self._asking.pop(name, None)
        if not asking.cancelled():
            asking.exception()  # whoever waits has it too; nobody may be left to

    async def _ask(self, name: str) -> Queue | None:
        try:
            raw = await self.kube.get_or_none(kinds.QUEUE, None, name, timeout_s=self.timeout_s)
            queue = None if raw is None else decode_object(kinds.QUEUE, raw)
        except BadCall:
            # A name that is a path: no queue can have it.
            queue = None
        except (KubeError, ObjectUnreadable) as problem:
            _lookups.add(1, outcome="failed")
            raise QueueOutOfReach(name, str(problem)) from problem
        _lookups.add(1, outcome="missing" if queue is None else "found")
        kept_s = self.missing_kept_s if queue is None else _FOUND_KEPT_S
        if len(self._known) >= _MAX_KEPT:
            del self._known[next(iter(self._known))]
        self._known[name] = (self.clock.monotonic() + kept_s, queue)
        return queue

    async def close(self) -> None:
        """Let go of questions that nobody waits for any more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
