"""Streams, buckets and consumers, declared once as data.

The gateway creates and reconciles them and never deletes one to make it again: a recreated
STATE is a new incarnation, and every view starts over. The other services verify and wait.
"""

from enum import StrEnum

import msgspec

from stromboli.contracts.facts import TOMBSTONE_LIFE_S

_MIB = 1024 * 1024
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S


class Retention(StrEnum):
    LIMITS = "limits"
    WORK_QUEUE = "workqueue"


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One JetStream stream, in the words of JetStream; 0 means no limit."""

    name: str
    description: str
    subjects: tuple[str, ...]
    retention: Retention = Retention.LIMITS
    max_msgs_per_subject: int = 0
    max_age_s: float = 0
    max_bytes: int = 0
    duplicate_window_s: float = 120
    discard_new: bool = False
    message_ttl: bool = False
    """Messages may carry a time to live of their own."""
    delete_marker_ttl_s: float = 0
    """How long the server's own marker stays where a message's time to live ran out."""


STATE_SUBJECT = "vc.state."
JOURNAL_SUBJECT = "vc.journal."
"""A delta of `vc.state.x` stands in JOURNAL under `vc.journal.x`."""

STATE = StreamSpec(
    name="STATE",
    description="The newest fact about every object; tombstones for ten minutes",
    subjects=(f"{STATE_SUBJECT}>",),
    max_msgs_per_subject=1,
    max_bytes=2048 * _MIB,
    # Dropping the oldest would take objects that live out of every view.
    discard_new=True,
    message_ttl=True,
)
JOURNAL = StreamSpec(
    name="JOURNAL",
    description="Every delta of STATE, noted by its writer",
    subjects=(f"{JOURNAL_SUBJECT}>",),
    max_age_s=_DAY_S,
    max_bytes=1024 * _MIB,
)
INTENT = StreamSpec(
    name="INTENT",
    description="What services want done in Kubernetes, until it is applied or refused",
    subjects=("vc.intent.>",),
    retention=Retention.WORK_QUEUE,
    max_age_s=_DAY_S,
    max_bytes=256 * _MIB,
    # A full queue refuses new intents: losing old ones in silence would break their order.
    discard_new=True,
)
OUTCOME = StreamSpec(
    name="OUTCOME",
    description="How each intent ended",
    subjects=("vc.outcome.>",),
    max_age_s=_HOUR_S,
    max_bytes=512 * _MIB,
)
HISTORY = StreamSpec(
    name="HISTORY",
    description="What was decided and why, per job",
    subjects=("vc.history.>",),
    max_age_s=7 * _DAY_S,
    max_bytes=512 * _MIB,
)
DEAD = StreamSpec(
    name="DEAD",
    description="What could not be read or applied, with the reason",
    subjects=("vc.dead.>",),
    max_age_s=7 * _DAY_S,
    max_bytes=256 * _MIB,
    # A bad message is met again by every reader and after every restart: one letter will do.
    duplicate_window_s=7 * _DAY_S,
)
LEASES = StreamSpec(
    name="KV_LEASES",
    description="Who leads: one key per service and shard",
    subjects=("$KV.LEASES.>",),
    max_msgs_per_subject=1,
    message_ttl=True,
    delete_marker_ttl_s=60,
)
STREAMS = (STATE, INTENT, OUTCOME, HISTORY, DEAD, LEASES)
"""The streams of every installation. JOURNAL is there only where the gateway is told to keep it."""

RESUME_LIMIT_S = TOMBSTONE_LIFE_S / 2
"""A view that was away for longer replays from zero: tombstones may have gone meanwhile."""


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer with acknowledgements; made anew by each owner, so that order returns."""

    name_prefix: str
    filter_subject: str
    ack_wait_s: float = 60.0
    max_ack_pending: int = 1024


INTENT_CONSUMER = ConsumerSpec(name_prefix="intents-", filter_subject="vc.intent.>")
"""All intents, also those of partitions that a former release used."""
