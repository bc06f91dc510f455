"""The codes for why a job waits, what could help it, and how both are read back from a message.

Whoever has only a PodGroup, as `vcctl` does, finds the reason in its condition Unschedulable, at
the end of Volcano's own sentence.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["GOES_ON", "Code", "Reason", "Unblock", "reason_in"]

GOES_ON: Final = "it goes on when "
"""Every reason ends with this and an `Unblock`."""


class Code(StrEnum):
    """The one reason that counts."""

    MISCONFIGURED = "Misconfigured"
    GANG_INCOMPLETE = "GangIncomplete"
    HELD = "Held"
    ENQUEUE_WAIT = "EnqueueWait"
    PRIORITY_WAIT = "PriorityWait"
    QUEUE_LIMIT = "QueueLimit"
    QUOTA_WAIT = "QuotaWait"
    NAMESPACE_QUOTA = "NamespaceQuota"
    RESERVED_FOR = "ReservedFor"
    EXCEEDS_MAX = "ExceedsMax"
    NODE_FILTER = "NodeFilter"
    VOLUME_WAIT = "VolumeWait"
    CLUSTER_FULL = "ClusterFull"
    FRAGMENTED = "Fragmented"
    TOPOLOGY_FRAGMENTED = "TopologyFragmented"
    WAITING_FOR_RELEASE = "WaitingForRelease"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    BACKOFF = "Backoff"
    GANG_EVICTED = "GangEvicted"
    PENDING_EVALUATION = "PendingEvaluation"


class Unblock(StrEnum):
    """What could change the answer."""

    JOB = "its own pods or PodGroup change"
    QUEUE = "its queue is created or opened"
    QUEUE_MENDED = "its queue, or one above it, is put right"
    LEAF = "the job names a leaf queue"
    NODES = "a node is added or changed"
    COMPANY = "other pods come or go, or a node is added or changed"
    VOLUMES = "its claims, or the volumes that they lead to, change"
    CAPACITY = "running pods end, or a node is added"
    TOPOLOGY = "pods in one part of the network end, or a node or HyperNode is added or changed"
    ADMISSION = "running pods end, or jobs ahead of it start or go"
    SHARE = "pods of its queue end, or the queue's share grows"
    LIMIT = "its queue may use more: a capability is raised, a guarantee lowered, or a node added"
    VICTIMS = "running pods end or may be asked to make room"
    TURN = "the job ahead of it starts or goes"
    RESERVATION = "the job that the room is kept for starts or goes, or a node is added"
    TIME = "a little time has passed"
    CONFIGURATION = "the scheduler's configuration changes"


class Reason(NamedTuple):
    """As it was written into a condition."""

    code: Code
    sentence: str
    """With what would help."""


_WRITTEN: Final = re.compile(
    rf"(?:^|\. )({'|'.join(code.value for code in Code)}): (.*; {GOES_ON}.*)$", re.DOTALL
)


def reason_in(message: str) -> Reason | None:
    """The reason in the message of a condition; None in one that somebody else wrote."""
    found = _WRITTEN.search(message)
    return None if found is None else Reason(Code(found[1]), found[2])
