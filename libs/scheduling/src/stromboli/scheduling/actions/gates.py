"""Let pods through the gate of their queue as soon as the queue has room for them.

Until then nobody sees that they wait, above all no autoscaler: nodes are bought only for pods
that may use them. A gang passes as a whole or not at all, so that no queue keeps room for
half of one. Whether there are nodes is not looked at: that is what the gate is for.
"""

from stromboli.scheduling.actions.filling import runs
from stromboli.scheduling.decisions import Decisions, LetThrough
from stromboli.scheduling.explain import refused
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import QueueGate, Task, TaskClass, TaskStatus
from stromboli.scheduling.session import Session

__all__ = ["open_gates"]


def open_gates(session: Session, contender: Contender, decisions: Decisions) -> None:
    """The queue keeps room for who passes; of who does not, it is said what it lacks."""
    if not contender.at_gate:
        return
    passing: list[Task] = []
    lacking: TaskClass | None = None
    for batch in runs(contender.at_gate):
        kind = batch[0].kind
        kept = contender.kept.get(kind, 0)
        room = max(0, session.allowed(contender, kind, kept + len(batch)) - kept)
        session.keep_room(contender, kind, room)
        passing += batch[:room]
        if room < len(batch):
            lacking = lacking or kind
    if lacking is not None:
        refusal = session.why_not_allowed(contender, lacking)
        if refusal is not None:
            decisions.explanations[contender.key] = refused(contender, refusal)
    if not _suffice(contender, passing):
        for task in passing:
            session.keep_room(contender, task.kind, -1)
        passing = []
    if passing:
        decisions.let_through.append(LetThrough(contender, passing))
    contender.at_gate = []


def _suffice(contender: Contender, passing: list[Task]) -> bool:
    """Whether the gang can be complete when these have passed."""
    through = {task.uid for task in passing}
    held = [
        task
        for task in contender.job.in_status(TaskStatus.PENDING)
        if task.gated and task.queue_gate is not QueueGate.OPENING and task.uid not in through
    ]
    minimums = contender.job.role_minimums
    return contender.valid() - len(held) >= contender.job.min_member and all(
        contender.valid(role) - sum(task.role == role for task in held) >= least
        for role, least in minimums.items()
    )
