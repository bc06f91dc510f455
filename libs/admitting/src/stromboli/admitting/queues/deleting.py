"""Which queues may go."""

from typing import Final

from stromboli.admitting.queues.cases import QueueEnd
from stromboli.admitting.rules import Cel, Faults, Rule, rule
from stromboli.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE

__all__ = ["DELETE_RULES"]


@rule(
    "queue-delete-default",
    says="`default` queue can not be deleted",
    about="jobs that name no queue go to `default`",
    is_final=True,
    cel=Cel("oldObject.metadata.name != 'default'", "`default` queue can not be deleted"),
)
def default_stays(end: QueueEnd) -> Faults:
    if end.name == DEFAULT_QUEUE:
        yield ()


@rule(
    "queue-delete-root",
    says="`root` queue can not be deleted",
    about="all queues are below the root",
    is_final=True,
    cel=Cel("oldObject.metadata.name != 'root'", "`root` queue can not be deleted"),
)
def root_stays(end: QueueEnd) -> Faults:
    if end.name == ROOT_QUEUE:
        yield ()


@rule(
    "queue-delete-pods",
    says="queue %s cannot be deleted because it has allocated Pods: %d",
    about="a queue whose pods hold resources stays (`--enable-queue-allocated-pods-check`, off)",
    needs_cluster=True,
    is_final=True,
)
def pods_go_first(end: QueueEnd) -> Faults:
    if end.conf.queue_allocated_pods_check:
        pods = end.surroundings.allocated_pods(end.name)
        if pods:
            yield end.name, pods


@rule(
    "queue-delete-children",
    says="queue %s can not be deleted because it has %d child queues: %s",
    about="children are deleted first",
    needs_cluster=True,
    is_final=True,
)
def children_go_first(end: QueueEnd) -> Faults:
    children = end.surroundings.children_of(end.name)
    if children:
        names = ", ".join(child.metadata.name for child in children)
        yield end.name, len(children), names


DELETE_RULES: Final[tuple[Rule[QueueEnd], ...]] = (
    default_stays,
    root_stays,
    pods_go_first,
    children_go_first,
)
