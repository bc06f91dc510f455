"""Queues as the scheduler sees them."""

from dataclasses import dataclass

from stromboli.api.scheduling import Queue, QueueState

__all__ = ["QueueInfo", "read_queue"]


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A share of the cluster that jobs draw from."""

    name: str
    created: str = ""
    is_open: bool = True
    weight: int = 1


def read_queue(queue: Queue) -> QueueInfo:
    return QueueInfo(
        name=queue.metadata.name,
        created=queue.metadata.creation_timestamp or "",
        # Nobody has said anything about a fresh queue yet; that counts as open.
        is_open=queue.status.state in {"", QueueState.OPEN},
        weight=queue.spec.weight or 1,
    )
