"""What a sender may hear other than that it was done, as values."""

import msgspec

from stromboli.contracts.outcomes import Reason


class Refusal(msgspec.Struct, frozen=True):
    """It was not done and will not be."""

    reason: Reason
    message: str


class Unclear(msgspec.Struct, frozen=True):
    """It may have been done, or may still be: nobody answered."""

    message: str
