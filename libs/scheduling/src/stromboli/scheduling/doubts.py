"""What may have been done: binds and evictions that nobody knows the end of.

The API server was asked and did not answer. It may do it still, so the room stays taken, and the
same is asked again: the same pod for the same node, later and ever later. That ends the doubt,
since a pod that is bound can't be bound once more, and one that is gone can't be bound at all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stromboli.scheduling.pods import JobKey, Task

__all__ = ["DoubtfulEviction", "Doubts"]

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class DoubtfulEviction:
    """A pod that may have been told to go."""

    task: Task
    why: str
    claimant: JobKey | None


@dataclass(slots=True)
class _Bind:
    pause_s: float
    at: float
    """When to ask again; infinite while it is asked."""


@dataclass(slots=True)
class Doubts:
    """By the uid of the pod."""

    _binds: dict[str, _Bind] = field(default_factory=dict[str, _Bind])
    _evictions: dict[str, tuple[float, DoubtfulEviction]] = field(
        default_factory=dict[str, tuple[float, DoubtfulEviction]]
    )

    @property
    def next_look(self) -> float:
        binds = (bind.at for bind in self._binds.values())
        evictions = (at for at, _ in self._evictions.values())
        return min((*binds, *evictions), default=math.inf)

    # Binds.

    def is_in_doubt(self, uid: str) -> bool:
        return uid in self._binds

    def doubt_bind(self, uid: str, now: float) -> None:
        """It may be bound, also after it was asked again."""
        pause_s = self._binds[uid].pause_s if uid in self._binds else _FIRST_PAUSE_S
        self._binds[uid] = _Bind(min(2 * pause_s, _LONGEST_PAUSE_S), now + pause_s)

    def asked(self, uid: str) -> None:
        """The answer says when to go on."""
        self._binds[uid].at = math.inf

    def settle(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._binds.pop(uid, None)

    def due_binds(self, now: float) -> list[str]:
        return [uid for uid, bind in self._binds.items() if bind.at <= now]

    # Evictions.

    def doubt_eviction(self, eviction: DoubtfulEviction, at: float) -> None:
        self._evictions[eviction.task.uid] = (at, eviction)

    def take_evictions(self, now: float) -> list[DoubtfulEviction]:
        """Those whose time has come; they are asked for again, or over."""
        due = [uid for uid, (at, _) in self._evictions.items() if at <= now]
        return [self._evictions.pop(uid)[1] for uid in due]
