"""Claims for which nobody could make room, so that others like them need not ask again.

Asking means looking at every node. Ten thousand jobs that are alike and all lack room would look
at every node ten thousand times, and get the same answer. Alike are pods of one class and
priority, of jobs of one queue, priority and turn that hold nothing: whoever judges claims by no
more than that gives all of them the same answer, until something is placed or told to go.
"""

from typing import TypeAlias

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.session import Session

__all__ = ["LostCauses"]

_Like: TypeAlias = tuple[str, int, TaskClass, int, SortKey]


class LostCauses:
    """What one action has asked in vain."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_of_use = session.panel.judges_alike
        self._asked: dict[_Like, int] = {}
        """How much had happened in the trial by then."""

    def holds(self, contender: Contender, task: Task) -> bool:
        """Whether one like it has just asked in vain."""
        like = self._like(contender, task)
        return like is not None and self._asked.get(like) == len(self._session.trial.touched)

    def note(self, contender: Contender, task: Task) -> None:
        """Nobody makes room for this pod."""
        like = self._like(contender, task)
        if like is not None:
            self._asked[like] = len(self._session.trial.touched)

    def _like(self, contender: Contender, task: Task) -> _Like | None:
        job = contender.job
        if not self._is_of_use or job.allocated or any(contender.pipelined.values()):
            return None
        if self._session.nominated.get(task.uid) or not task.may_preempt:
            return None
        if self._session.choosing.neighbours.concerns(task):
            return None
        turn = self._session.job_preference(contender)
        return (contender.queue, job.priority, task.kind, task.priority, turn)
