"""A refusal that a sender can meet, as a value: a reason and a sentence."""

import msgspec

from stromboli.contracts.outcomes import Reason


class Refusal(msgspec.Struct, frozen=True):
    reason: Reason
    message: str
