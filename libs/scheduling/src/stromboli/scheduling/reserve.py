"""Jobs that sleep on in a cycle that could help them, because one that is like them is awake.

When that one gets something, the next of them joins the cycle, in time for its turn.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.sleeping import Crowd, Like

__all__ = ["Join", "Reserve"]


class Join(Protocol):
    def __call__(self, job: JobKey, *, late: bool) -> Contender | None:
        """The job takes part from here on, if it can; `late`: without having been refused yet."""
        ...


@dataclass(slots=True)
class Reserve:
    """The crowds that were called in this cycle."""

    join: Join
    like: Callable[[Contender], Like | None]
    joined: list[JobKey] = field(default_factory=list[JobKey])
    last: dict[Crowd[Any], JobKey] = field(default_factory=dict[Crowd[Any], JobKey])
    """Of each crowd of which some still sleep, who joined last."""
    _crowd_of: dict[JobKey, Crowd[Any]] = field(default_factory=dict[JobKey, Crowd[Any]])

    def call(self, crowds: Iterable[Crowd[Any]]) -> None:
        """The first of each takes part."""
        for crowd in crowds:
            self._next(crowd)

    @property
    def is_empty(self) -> bool:
        return not self.last

    def after(self, contender: Contender) -> list[Contender]:
        """The job got something in its turn: who is to try next."""
        crowd = self._crowd_of.get(contender.key)
        if crowd is None or self.last.get(crowd) != contender.key:
            return []
        return self._next(crowd)

    def since(self, turn: SortKey, queue: str | None) -> list[Contender]:
        """Somebody of the queue made others make room: who of it is to try with what is so now.

        Those whose turn came before that one's would have tried when nothing had changed.
        """
        return [
            contender
            for crowd in list(self.last)
            if queue in {None, crowd.like.queue} and crowd.like.phase != PodGroupPhase.PENDING
            for contender in self._next(crowd, after=turn)
        ]

    def _next(self, crowd: Crowd[Any], after: SortKey | None = None) -> list[Contender]:
        """One, and before it all that turn out not to be like the others any more."""
        found: list[Contender] = []
        while (job := crowd.wake_next(after)) is not None:
            self.joined.append(job)
            self._crowd_of[job] = crowd
            if crowd.line:
                self.last[crowd] = job
            else:
                self.last.pop(crowd, None)
            contender = self.join(job, late=after is not None)
            if contender is not None:
                found.append(contender)
                if self.like(contender) == crowd.like:
                    break
        return found
