"""What the rules of queues look at."""

from dataclasses import dataclass

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.questions import Surroundings
from stromboli.api.scheduling import Queue
from stromboli.api.wellknown import ROOT_QUEUE

__all__ = ["QueueCase", "QueueEnd"]


@dataclass(frozen=True, slots=True)
class QueueCase:
    """A queue as it is to be, and as it was (None when it is new)."""

    queue: Queue
    old: Queue | None
    surroundings: Surroundings
    conf: AdmissionConf

    @property
    def name(self) -> str:
        return self.queue.metadata.name

    @property
    def parent(self) -> str:
        """The name of the parent; empty below the root, which needs no checks."""
        parent = self.queue.spec.parent
        return "" if parent == ROOT_QUEUE else parent

    @property
    def is_moved(self) -> bool:
        return self.old is None or self.queue.spec.parent != self.old.spec.parent

    @property
    def shares_changed(self) -> bool:
        if self.old is None:
            return True
        new, old = self.queue.spec, self.old.spec
        return (new.capability, new.deserved, new.guarantee) != (
            old.capability,
            old.deserved,
            old.guarantee,
        )


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """A queue that is to be deleted."""

    name: str
    surroundings: Surroundings
    conf: AdmissionConf
