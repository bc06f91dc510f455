"""Only so many pods are asked to go within a while, in the whole cluster and of one queue.

Ours, off by default: a change of shares or priorities then moves the cluster step by step, and
not all at once. One that begins its work counts the pods that are ending because a predecessor
told them to, by the condition that they carry; those that are gone by then it can't know of.
"""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from stromboli.scheduling.errors import BadValue
from stromboli.scheduling.moments import duration_s, moment_of
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.session import Session

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "eviction-budget"


class Args(msgspec.Struct, frozen=True):
    """How many, and within what time."""

    most: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(default=100, name="evictions")
    most_of_queue: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(
        default=100, name="evictions-per-queue"
    )
    window: str = msgspec.field(default="1m", name="window")


class EvictionBudget:
    """Counts evictions that were decided, and those on trial."""

    name = NAME

    def __init__(self, args: Args, window_s: float) -> None:
        self._most = args.most
        self._most_of_queue = args.most_of_queue
        self._window_s = window_s
        self._session: Session | None = None
        self._decided: deque[tuple[float, str]] = deque()
        self._on_trial: list[str] = []
        """Queues of pods that were told to go in this cycle."""
        self._spared = False

    def opened(self, session: Session) -> None:
        if self._session is None:
            self._take_over(session)
        self._session, self._spared = session, False
        self._on_trial = []
        while self._decided and self._decided[0][0] <= session.now - self._window_s:
            self._decided.popleft()

    def _take_over(self, session: Session) -> None:
        """Learn from the pods what was spent before."""
        spent = [(session.now, task) for task in session.leaving]
        for job in session.jobs.values():
            if TaskStatus.RELEASING in job.by_status:
                for task in job.in_status(TaskStatus.RELEASING):
                    moment = moment_of(task.evicted_at)
                    if moment is not None:
                        spent.append((min(moment, session.now), task))
        jobs, queue_of = session.jobs, session.queue_of
        found = {task.uid: (at, queue_of(jobs[task.job])) for at, task in spent}
        self._decided.extend(sorted(found.values()))

    def closed(self, session: Session) -> None:
        self._decided.extend((session.now, queue) for queue in self._on_trial)
        self._on_trial = []
        if self._spared and self._decided:
            # Who was refused victims is looked at again when the budget has room.
            for key, contender in session.contenders.items():
                if contender.waiting:
                    session.look_again(key, self._decided[0][0] + self._window_s)

    def may_go(self, task: Task) -> bool:
        session = self._session
        if session is None:
            return True
        queue = session.contender(task.job).queue
        queues = [*self._on_trial, *(of for _, of in self._decided)]
        may = len(queues) < self._most and queues.count(queue) < self._most_of_queue
        self._spared = self._spared or not may
        return may

    def placed(self, placement: "Placement") -> None:
        """Placing evicts nobody."""

    def withdrawn(self, placement: "Placement") -> None:
        """Nor does taking a placement back."""

    def evicted(self, eviction: "Eviction") -> None:
        self._on_trial.append(eviction.contender.queue)

    def restored(self, eviction: "Eviction") -> None:
        self._on_trial.remove(eviction.contender.queue)


def build(arguments: Mapping[str, Any]) -> EvictionBudget:
    args = read_arguments(NAME, Args, arguments)
    window_s = duration_s(args.window)
    if window_s is None or window_s <= 0:
        raise BadValue(f"the window of {NAME}", args.window, "a duration such as 1m or 1h")
    return EvictionBudget(args, window_s)
