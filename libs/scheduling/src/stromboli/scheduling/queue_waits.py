"""Jobs that their queue refused, asleep until it has room for what they need.

A full queue may have thousands of jobs waiting. They are kept by queue and need, so that when
something happens it is found out once for all that need the same whether it could help them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import Amounts

__all__ = ["QueueWaits", "Wait"]


class Wait(NamedTuple):
    """What a job waits for."""

    queue: str
    need: Amounts
    """Empty: any room at all."""
    admitted: bool


@dataclass(slots=True)
class QueueWaits:
    """Who waits for its queue."""

    _waiting: dict[JobKey, Wait] = field(default_factory=dict[JobKey, Wait])
    _by_wait: dict[Wait, dict[JobKey, None]] = field(default_factory=dict[Wait, dict[JobKey, None]])

    def __len__(self) -> int:
        return len(self._waiting)

    def jobs(self) -> list[JobKey]:
        return list(self._waiting)

    def put(self, job: JobKey, wait: Wait) -> None:
        self.drop(job)
        self._waiting[job] = wait
        self._by_wait.setdefault(wait, {})[job] = None

    def drop(self, job: JobKey) -> None:
        wait = self._waiting.pop(job, None)
        if wait is None:
            return
        same = self._by_wait[wait]
        del same[job]
        if not same:
            del self._by_wait[wait]

    def clear(self) -> None:
        self._waiting.clear()
        self._by_wait.clear()

    def wake_if(self, has_room: Callable[[Wait], bool]) -> list[JobKey]:
        """Wake all whose queue has room for what they need."""
        woken = [
            job for wait, jobs in list(self._by_wait.items()) if has_room(wait) for job in jobs
        ]
        for job in woken:
            self.drop(job)
        return woken
