"""Actions that wait: what a policy with a timeout asks for, and when.

A delay is not kept in memory. It counts from a time that the pod itself tells, or else from
one that is written into the job's status, so a new core waits for what is left of it. It is
cancelled by its reason going away: the pod runs, the task is well again, the gang is back.
"""

import math
from collections.abc import Iterable

import msgspec

from stromboli.api.batch import Job
from stromboli.lifecycle.policies import Answer, Happening, answer_to
from stromboli.lifecycle.records import Delayed

__all__ = ["Verdict", "weigh"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done now, what later."""

    answer: Answer | None = None
    causes: tuple[Happening, ...] = ()
    """What the action of `answer` is the answer to; the first is the one that it was chosen for."""
    waiting: Delayed = msgspec.field(default_factory=Delayed)
    """What waits and can't be told from the pods; it goes into the status."""
    announced: tuple[Answer, ...] = ()
    """The answers that wait, each once."""
    next_at: float | None = None
    """When the first of what waits is due."""


def weigh(job: Job, happened: Iterable[Happening], delayed: Delayed, *, now: float) -> Verdict:
    """The first answer that is due, with all that its action answers.

    `delayed` is what the status says has waited since when.
    """
    chosen: Answer | None = None
    causes: list[Happening] = []
    waiting: Delayed = {}
    announced: dict[Answer, None] = {}
    next_at: float | None = None
    for happening in happened:
        answer = answer_to(job, happening)
        if answer is None:
            continue
        if answer.timeout is None:
            chosen = chosen or answer
            if answer.action == chosen.action:
                causes.append(happening)
            continue
        place = (happening.event.value, happening.task)
        since = happening.since
        if since is None:
            # Whole seconds, as all times in a status; not a moment too early.
            since = delayed.get(place, {}).get(happening.slot, math.ceil(now))
        due = since + answer.delay_s
        if due <= now:
            chosen = chosen or answer
            if answer.action == chosen.action:
                causes.append(happening)
            continue
        if happening.since is None:
            waiting.setdefault(place, {})[happening.slot] = int(since)
        announced[answer] = None
        next_at = due if next_at is None else min(next_at, due)
    return Verdict(
        answer=chosen,
        causes=tuple(causes),
        waiting=waiting,
        announced=tuple(announced),
        next_at=next_at,
    )
