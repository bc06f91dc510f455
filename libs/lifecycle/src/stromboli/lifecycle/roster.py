"""Sets of pod indexes as short text, and back: "0-3,7".

This is how a job's status remembers which pods it had; text, because that is all that the
field of Volcano's status which we keep it in can hold.
"""

from collections.abc import Iterable
from typing import Final

__all__ = ["as_indexes", "as_text"]

_LONGEST_RUN: Final = 1_000_000
"""More than any task has; text that somebody else wrote must not exhaust our memory."""


def as_text(indexes: Iterable[int]) -> str:
    """Runs of consecutive numbers, in order."""
    runs: list[tuple[int, int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def as_indexes(text: str) -> frozenset[int]:
    """The indexes; a part that is no number or run of numbers is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            start, end = int(first), int(last or first)
            found.update(range(start, min(end, start + _LONGEST_RUN) + 1))
    return frozenset(found)
