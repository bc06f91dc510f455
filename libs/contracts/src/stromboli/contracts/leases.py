"""What stands in the key of a lease: who leads, and where its fence stands.

The lease of a deciding service is its fence. Whoever acquired it puts a `Fence` on INTENT and
notes here under which sequence it is stored. What an earlier holder stored before that is either
finished, if the gateway had begun it, or refused; what comes after it is refused.
"""

import msgspec

from stromboli.contracts.subjects import CLUSTER

__all__ = ["LEASE_PROOF", "LEASE_SUBJECT", "LeaseValue", "lease_subject"]

LEASE_SUBJECT = "$KV.LEASES.{service}.{shard}"
LEASE_PROOF = "$KV.LEASES.gateway.proof"
"""Where the gateway confirms what it read of a lease by a write; nobody reads it."""


def lease_subject(service: str, shard: str = CLUSTER) -> str:
    return LEASE_SUBJECT.format(service=service, shard=shard)


class LeaseValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value, as JSON so that a person can read it with any NATS tool."""

    holder: str
    """The instance that leads. After a restart it has the same name and takes over at once."""
    keeper: str
    """Which process wrote it: two processes may be given one name, but never share this."""
    revision: int = 0
    """Of the write that acquired the lease: the epoch. That write itself does not know it: 0."""
    fence_log: str = ""
    """When the INTENT stream was made that the fence stands on."""
    fence: int = 0
    """The sequence of this holder's fence on INTENT; 0 until it is stored."""
