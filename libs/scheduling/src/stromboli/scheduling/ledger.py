"""What was asked for and is not seen yet: nodes promised to pods, pods told to go, gates opened.

A promise takes room like a pod on the node does. It ends when the pod's own fact shows where
it is or that it is gone, or when the gateway says that the pod was not bound and will not be;
only then is the room free again. So the scheduler never promises the same room twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stromboli.scheduling.pods import JobKey, Task

__all__ = ["Ledger"]


@dataclass(slots=True)
class Ledger:
    """Open promises by pod uid, and which intent made them."""

    _promises: dict[str, Task] = field(default_factory=dict[str, Task])
    """Pods with the node that was asked for them."""
    _by_intent: dict[str, tuple[JobKey, list[str]]] = field(
        default_factory=dict[str, tuple[JobKey, list[str]]]
    )
    _evictions: dict[str, Task] = field(default_factory=dict[str, Task])
    """Pods that were told to go and are not seen ending yet, as they were last seen."""
    _eviction_of: dict[str, tuple[str, JobKey | None]] = field(
        default_factory=dict[str, tuple[str, JobKey | None]]
    )
    """By intent: the pod's uid, and for which job it goes."""
    _opening: dict[str, Task] = field(default_factory=dict[str, Task])
    """By uid: pods whose gate we asked to be taken off, and do not see that yet."""
    _opening_of: dict[str, str] = field(default_factory=dict[str, str])
    """By intent: the pod's uid."""

    def __len__(self) -> int:
        return len(self._promises)

    def promise_to(self, uid: str) -> Task | None:
        return self._promises.get(uid)

    def is_promised(self, uid: str) -> bool:
        return uid in self._promises

    def promised(self, intent_id: str, job: JobKey, tasks: Sequence[Task]) -> None:
        uids = [task.uid for task in tasks]
        self._promises.update(zip(uids, tasks, strict=True))
        self._by_intent[intent_id] = (job, uids)

    def assume(self, task: Task) -> None:
        """A predecessor has promised it; no intent of ours is about it."""
        self._promises[task.uid] = task

    def asked_again(self, intent_id: str, promise: Task) -> None:
        """Another intent is about a promise that stands."""
        self._by_intent[intent_id] = (promise.job, [promise.uid])

    def settle(self, uid: str) -> Task | None:
        """The promise is kept or void; None if there was none."""
        return self._promises.pop(uid, None)

    def close(self, intent_id: str) -> tuple[JobKey, list[str]] | None:
        """The intent has ended: whose pods it was about, and their uids, settled or not."""
        return self._by_intent.pop(intent_id, None)

    # Evictions.

    def evicting(self, intent_id: str, task: Task, claimant: JobKey | None) -> None:
        self._evictions[task.uid] = task
        self._eviction_of[intent_id] = (task.uid, claimant)

    def leaving(self) -> list[Task]:
        """Pods that were told to go and are not seen ending yet."""
        return list(self._evictions.values())

    def is_evicting(self, uid: str) -> bool:
        return uid in self._evictions

    def still_there(self, task: Task) -> None:
        """A pod that was told to go changed, but is not ending yet."""
        self._evictions[task.uid] = task

    def evicted(self, uid: str) -> None:
        """The pod is ending, or gone."""
        self._evictions.pop(uid, None)

    def close_eviction(self, intent_id: str, *, done: bool) -> tuple[Task | None, JobKey | None]:
        """The intent has ended; the pod, unless that is ending already, and who wanted its room.

        An eviction that was not done can be repeated.
        """
        uid, claimant = self._eviction_of.pop(intent_id, ("", None))
        task = self._evictions.get(uid) if done else self._evictions.pop(uid, None)
        return task, claimant

    # Gates.

    def opening(self, intent_id: str, task: Task) -> None:
        self._opening[task.uid] = task
        self._opening_of[intent_id] = task.uid

    def is_opening(self, uid: str) -> bool:
        return uid in self._opening

    def opened(self, uid: str) -> None:
        """The gate is gone, or the pod."""
        self._opening.pop(uid, None)

    def close_opening(self, intent_id: str, *, done: bool) -> Task | None:
        """The intent has ended; the pod, if its gate is still there and can be asked for again."""
        uid = self._opening_of.pop(intent_id, "")
        return None if done else self._opening.pop(uid, None)
