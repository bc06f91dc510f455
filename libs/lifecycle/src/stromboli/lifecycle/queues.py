"""Keep queues as they should be: the two that always exist, their parents, their state, counts.

`root` is the queue that all others descend from; `default` takes the jobs that name none.
The counts say how many PodGroups of the queue are in which phase.

A queue is open, or it is closed and takes no more jobs; Closing means closed with some still
in it. A queue whose parent closes is closed with it, and an annotation says so; when the
parent opens again, so does every queue with that annotation, and no other. All of this is
found from what is there, level by level: nothing is lost if we stop halfway.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import kinds
from stromboli.api.batch import Action
from stromboli.api.bus import Command
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import PodGroup, PodGroupPhase, Queue, QueueSpec, QueueState
from stromboli.api.wellknown import CLOSED_BY_PARENT, DEFAULT_QUEUE, ROOT_QUEUE
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.telling import tell, warn
from stromboli.lifecycle.world import Entry

__all__ = [
    "ALWAYS_THERE",
    "GroupCounts",
    "QueueSituation",
    "decide_queue",
    "parent_of",
]

_QUEUE: Final = kinds.QUEUE.token

ALWAYS_THERE: Final[Mapping[str, Queue]] = {
    ROOT_QUEUE: Queue(
        metadata=ObjectMeta(name=ROOT_QUEUE), spec=QueueSpec(weight=1, reclaimable=False)
    ),
    DEFAULT_QUEUE: Queue(
        metadata=ObjectMeta(name=DEFAULT_QUEUE),
        spec=QueueSpec(weight=1, reclaimable=True, parent=ROOT_QUEUE),
    ),
}

_COUNTED_AS: Final = {
    "": "pending",
    PodGroupPhase.PENDING: "pending",
    PodGroupPhase.INQUEUE: "inqueue",
    PodGroupPhase.RUNNING: "running",
    PodGroupPhase.COMPLETED: "completed",
}

_SHUT: Final = frozenset({QueueState.CLOSED, QueueState.CLOSING})


class GroupCounts:
    """How many PodGroups of each queue are in which phase, kept up to date one by one."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def add(self, group: PodGroup, number: int) -> str:
        """Count a group in (1) or out (-1); returns its queue."""
        queue = group.spec.queue or DEFAULT_QUEUE
        counted_as = _COUNTED_AS.get(group.status.phase, "unknown")
        counts = self._counts.setdefault(queue, {})
        counts[counted_as] = counts.get(counted_as, 0) + number
        if not counts[counted_as]:
            del counts[counted_as]
        if not counts:
            del self._counts[queue]
        return queue

    def of(self, queue: str) -> dict[str, int]:
        return self._counts.get(queue, {})


class QueueSituation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision about a queue rests on."""

    name: str
    queue: Queue | None = None
    parent: Queue | None = None
    is_in_a_circle: bool = False
    """Whether its line of parents comes back to it instead of ending at the root."""
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    commands: tuple[Entry, ...] = ()
    """Oldest first."""
    now: float


class _Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the queue should be shut, and by whose doing."""

    shut: bool
    by_parent: bool


def parent_of(queue: Queue) -> str:
    """The name of a queue's parent; empty for the root."""
    if queue.metadata.name == ROOT_QUEUE:
        return ""
    return queue.spec.parent or ROOT_QUEUE


def decide_queue(situation: QueueSituation, asker: Asker) -> None:
    """One decision about one queue."""
    queue, name = situation.queue, situation.name
    if queue is None:
        if name in ALWAYS_THERE:
            asker.create(_QUEUE, compact_manifest(ALWAYS_THERE[name]))
    elif queue.metadata.deletion_timestamp is None:
        _keep(situation, queue, asker)
    for command in situation.commands:
        _delete_command(command, asker)


def _keep(situation: QueueSituation, queue: Queue, asker: Asker) -> None:
    name, uid = situation.name, queue.metadata.uid
    body: dict[str, Any] = {}
    if name != ROOT_QUEUE and not queue.spec.parent:
        body["spec"] = {"parent": ROOT_QUEUE}
    _complain(situation, queue, asker)
    wish = _obeyed(situation, queue, _inherited(situation, queue), asker)
    mark = queue.metadata.annotations.get(CLOSED_BY_PARENT)
    if wish is not None and (mark == "true") != wish.by_parent:
        body["metadata"] = {"annotations": {CLOSED_BY_PARENT: str(wish.by_parent).lower()}}
    # Before the status: a queue that is shut and does not say why would never open again.
    if body:
        asker.patch(_QUEUE, "", name, uid=uid, body=body)
    patch = _status_patch(queue, situation.counts, wish)
    if patch:
        asker.patch(_QUEUE, "", name, uid=uid, body={"status": patch}, subresource="status")


def _complain(situation: QueueSituation, queue: Queue, asker: Asker) -> None:
    parent = parent_of(queue)
    if situation.is_in_a_circle:
        message = (
            f"queue {situation.name} is its own ancestor through its parent {parent}: "
            "give one of them another parent; until then it neither closes nor opens with it"
        )
        warn(asker, queue, "InvalidParent", message, now=situation.now)
    elif parent and situation.parent is None and parent not in ALWAYS_THERE:
        message = f"the parent {parent} of queue {situation.name} does not exist"
        warn(asker, queue, "ParentNotFound", message, now=situation.now)


def _inherited(situation: QueueSituation, queue: Queue) -> _Wish | None:
    """What follows from the parent; None if nothing does."""
    parent = situation.parent
    if parent is None or situation.is_in_a_circle:
        return None
    shut = queue.status.state in _SHUT
    is_marked = queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"
    if parent.status.state in _SHUT and not shut:
        return _Wish(shut=True, by_parent=True)
    if parent.status.state not in _SHUT and shut and is_marked:
        return _Wish(shut=False, by_parent=False)
    return None


def _obeyed(
    situation: QueueSituation, queue: Queue, wish: _Wish | None, asker: Asker
) -> _Wish | None:
    """What the commands make of it; they are gone afterwards, obeyed or refused."""
    for entry in situation.commands:
        command: Command = entry.object
        if command.target is None or command.target.uid != queue.metadata.uid:
            continue
        match command.action:
            case Action.CLOSE_QUEUE if situation.name == ROOT_QUEUE:
                message = "Close queue failed for the root queue cannot be closed"
                _answer(asker, queue, entry, message, situation.now, reason="CloseQueue")
            case Action.CLOSE_QUEUE:
                wish = _Wish(shut=True, by_parent=False)
                tell(
                    asker,
                    queue,
                    "CloseQueue",
                    "Close queue succeed",
                    now=situation.now,
                    once_for=entry.uid,
                )
            case Action.OPEN_QUEUE if _has_shut_parent(situation):
                message = (
                    f"Failed to open queue {situation.name} because its parent queue "
                    f"{parent_of(queue)} is closing or closed. Open the parent queue first."
                )
                _answer(asker, queue, entry, message, situation.now, reason="OpenQueue")
            case Action.OPEN_QUEUE:
                wish = _Wish(shut=False, by_parent=False)
            case Action.SYNC_QUEUE:
                pass
            case other:
                message = f"{other!r} is nothing that a queue can do"
                _answer(asker, queue, entry, message, situation.now, reason="InvalidCommand")
    return wish


def _has_shut_parent(situation: QueueSituation) -> bool:
    parent = situation.parent
    return (
        parent is not None
        and parent.metadata.name != ROOT_QUEUE
        and not situation.is_in_a_circle
        and parent.status.state in _SHUT
    )


def _answer(
    asker: Asker, queue: Queue, command: Entry, message: str, now: float, *, reason: str
) -> None:
    warn(asker, queue, reason, message, now=now, once_for=command.uid)


def _delete_command(command: Entry, asker: Asker) -> None:
    metadata: ObjectMeta = command.object.metadata
    asker.delete(kinds.COMMAND.token, metadata.namespace, metadata.name, uid=command.uid)


def _state(queue: Queue, wish: _Wish | None, *, is_empty: bool) -> str:
    """The table of states: what a queue becomes by a wish, or by itself."""
    state = queue.status.state or QueueState.OPEN
    if wish is not None and not wish.shut:
        return QueueState.OPEN
    if wish is not None and state != QueueState.CLOSED:
        return QueueState.CLOSED if is_empty else QueueState.CLOSING
    if state == QueueState.CLOSING and is_empty:
        return QueueState.CLOSED
    return state


def _status_patch(queue: Queue, counts: Mapping[str, int], wish: _Wish | None) -> dict[str, Any]:
    wanted = replace(
        queue.status,
        state=_state(queue, wish, is_empty=not any(counts.values())),
        pending=counts.get("pending", 0),
        inqueue=counts.get("inqueue", 0),
        running=counts.get("running", 0),
        completed=counts.get("completed", 0),
        unknown=counts.get("unknown", 0),
    )
    return merge_patch(msgspec.to_builtins(queue.status), msgspec.to_builtins(wanted))
