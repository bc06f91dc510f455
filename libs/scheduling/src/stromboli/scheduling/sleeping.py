"""Jobs that nobody needs to look at until something happens that could help them.

Ten thousand jobs that wait for room cost nothing while no room comes free; and when some does,
those that need more than is free in the whole cluster are looked at once per distinct need, not
once per job.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stromboli.scheduling.explain import Unblock
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.resources import Amounts

__all__ = ["Sleepers"]


@dataclass(slots=True)
class Sleepers:
    """Who sleeps, and what each waits for."""

    _asleep: dict[JobKey, tuple[Unblock, Amounts]] = field(
        default_factory=dict[JobKey, tuple[Unblock, Amounts]]
    )
    _by_reason: dict[tuple[Unblock, Amounts], dict[JobKey, None]] = field(
        default_factory=dict[tuple[Unblock, Amounts], dict[JobKey, None]]
    )

    def __len__(self) -> int:
        return len(self._asleep)

    def __contains__(self, job: JobKey) -> bool:
        return job in self._asleep

    def jobs(self) -> list[JobKey]:
        return list(self._asleep)

    def sleep(self, job: JobKey, until: Unblock, need: Amounts) -> None:
        self.wake(job)
        self._asleep[job] = (until, need)
        self._by_reason.setdefault((until, need), {})[job] = None

    def wake(self, job: JobKey) -> None:
        reason = self._asleep.pop(job, None)
        if reason is None:
            return
        same = self._by_reason[reason]
        del same[job]
        if not same:
            del self._by_reason[reason]

    def wake_if(
        self, unblocks: Iterable[Unblock], worth_a_look: Callable[[Amounts], bool]
    ) -> list[JobKey]:
        """Wake those that wait for one of these, and whose need could be met now."""
        wanted = tuple(unblocks)
        woken: list[JobKey] = []
        for (until, need), jobs in tuple(self._by_reason.items()):
            if until in wanted and worth_a_look(need):
                woken += jobs
        for job in woken:
            self.wake(job)
        return woken

    def wake_all(self) -> list[JobKey]:
        woken = list(self._asleep)
        self._asleep.clear()
        self._by_reason.clear()
        return woken
