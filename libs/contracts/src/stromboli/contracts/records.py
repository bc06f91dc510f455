"""HISTORY and DEAD: what was decided and why, and what could not be read or applied."""

from typing import Final

import msgspec

from stromboli.contracts.messages import Message, travels_on

DEAD_PAYLOAD_LIMIT = 256 * 1024
"""Enough to see what a message was; a dead letter must always fit on the bus itself."""

REPAIRED: Final = "safety.repaired"
"""What a line of history says of which only a safety pass found out: a wake-up was lost."""


@travels_on("vc.history.{namespace}.{job}")
class HistoryRecorded(Message, frozen=True, kw_only=True, tag="history.recorded.v1"):
    """One line of a job's story."""

    namespace: str
    job: str
    uid: str = ""
    service: str
    at: float
    what: str
    """`noun.verb`, e.g. `pod.bound`."""
    why: str = ""
    detail: dict[str, str] = msgspec.field(default_factory=dict[str, str])


@travels_on("vc.dead.{stream}")
class DeadLetter(Message, frozen=True, kw_only=True, tag="dead.letter.v1"):
    """A message that could not be read or applied, kept with the reason for a person."""

    stream: str
    arrived_on: str
    """The subject it came on."""
    sequence: int
    service: str
    at: float
    reason: str
    payload: bytes
    """The message as it came, cut to `DEAD_PAYLOAD_LIMIT`."""
    size: int
    """How long it was before it was cut."""
