"""The state of a queue, as rules see it."""

from stromboli.api.scheduling import Queue, QueueState

__all__ = ["state_of"]


def state_of(queue: Queue) -> str:
    """A queue whose controller has not come by yet is open: it was created to be used."""
    return queue.status.state or QueueState.OPEN
