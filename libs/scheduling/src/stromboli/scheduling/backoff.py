"""Do not ask again at once for what was just refused; wait longer each time."""

from dataclasses import dataclass, field
from typing import Final

from stromboli.scheduling.pods import JobKey

__all__ = ["Backoff"]

_FIRST_S: Final = 0.05
_LONGEST_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Failures:
    number: int
    until: float
    message: str


@dataclass(slots=True)
class Backoff:
    """Jobs whose binds were refused lately."""

    _failures: dict[JobKey, _Failures] = field(default_factory=dict[JobKey, _Failures])

    def failed(self, job: JobKey, message: str, now: float) -> None:
        before = self._failures.get(job)
        number = 1 + (before.number if before else 0)
        wait_s = min(_LONGEST_S, _FIRST_S * 2.0 ** min(number - 1, 16))
        self._failures[job] = _Failures(number, now + wait_s, message)

    def forget(self, job: JobKey) -> None:
        self._failures.pop(job, None)

    def until(self, job: JobKey, now: float) -> float | None:
        """When the job may be tried again, if that is not now."""
        failures = self._failures.get(job)
        return failures.until if failures is not None and failures.until > now else None

    def story(self, job: JobKey) -> str:
        failures = self._failures[job]
        return f"its pods could not be bound {failures.number} times, last: {failures.message}"
