"""Where a delivered message stands in its stream: JetStream says it in the reply subject.

`$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>`; a
server may put `<domain>.<account>.` before the stream and a random token at the end.
"""

from typing import NamedTuple

_PLAIN_TOKENS = 9
_WITH_DOMAIN = 2


class Place(NamedTuple):
    """What the server knows about one delivery."""

    deliveries: int
    """1 for the first time."""
    stream_sequence: int
    consumer_sequence: int
    timestamp_ns: int
    pending: int
    """How many messages come after it, as far as the server knew."""


def place_of(reply: str) -> Place:
    """Read the reply subject of a delivered message."""
    tokens = reply.split(".")
    if len(tokens) < _PLAIN_TOKENS or tokens[1] != "ACK":
        raise ValueError(f"expected the reply subject of a JetStream delivery, got {reply!r}")
    first = 4 if len(tokens) == _PLAIN_TOKENS else 4 + _WITH_DOMAIN
    return Place(*map(int, tokens[first : first + 5]))
