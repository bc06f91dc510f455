"""Which queue a job may be submitted to."""

from typing import Final

from stromboli.admitting.jobs.cases import JobCase
from stromboli.admitting.queues.states import state_of
from stromboli.admitting.rules import Cel, Faults, Rule, rule
from stromboli.api.scheduling import QueueState
from stromboli.api.wellknown import ROOT_QUEUE

__all__ = ["QUEUE_RULES", "not_found"]


def not_found(queue: str) -> str:
    """As Volcano's lister says it."""
    return f'queue.scheduling.volcano.sh "{queue}" not found'


@rule(
    "job-queue-exists",
    says=" unable to find job queue: %s;",
    about="the queue of a job exists; one that admission has not heard of is looked up",
    needs_cluster=True,
)
def queue_exists(case: JobCase) -> Faults:
    if case.surroundings.queue(case.queue) is None:
        yield (not_found(case.queue),)


@rule(
    "job-queue-open",
    says=" can only submit job to queue with state `Open`, queue `%s` status is `%s`;",
    about="jobs are submitted to open queues; a queue that has no state yet counts as open",
    needs_cluster=True,
)
def queue_open(case: JobCase) -> Faults:
    queue = case.surroundings.queue(case.queue)
    if queue is not None and state_of(queue) != QueueState.OPEN:
        yield case.queue, state_of(queue)


@rule(
    "job-queue-root",
    says=" can not submit job to root queue;",
    about="the root of the tree takes no jobs",
    cel=Cel(
        "!has(object.spec.queue) || object.spec.queue != 'root'", "can not submit job to root queue"
    ),
)
def queue_not_root(case: JobCase) -> Faults:
    if case.queue == ROOT_QUEUE:
        yield ()


@rule(
    "job-queue-leaf",
    says=" can only submit job to leaf queue, queue `%s` has %d child queues;",
    about="jobs are submitted to queues without children",
    needs_cluster=True,
)
def queue_leaf(case: JobCase) -> Faults:
    children = len(case.surroundings.children_of(case.queue)) if case.queue != ROOT_QUEUE else 0
    if children:
        yield case.queue, children


QUEUE_RULES: Final[tuple[Rule[JobCase], ...]] = (
    queue_exists,
    queue_open,
    queue_not_root,
    queue_leaf,
)
