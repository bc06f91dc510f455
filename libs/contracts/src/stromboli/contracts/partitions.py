"""Intents of one job keep their order because they share a key.

The key of an intent is its root owner, never the object it touches: the pods, the PodGroup
and the ConfigMap of a job all travel with the job.
"""

import zlib

PARTITIONS = 1
"""One consumer hands out all intents. The token stays in the subjects: there can be more later."""


def job_key(kind: str, namespace: str, name: str) -> str:
    """The key of everything that belongs to one root owner."""
    return f"{kind}/{namespace}/{name}"


def partition_of(key: str) -> int:
    """The partition of a key; stable across processes, unlike Python's own hash."""
    return zlib.crc32(key.encode()) % PARTITIONS
