"""Sets of pod indexes as short text, and back: "0-3,7"; and numbers by index: "12:0-3;15:7".

This is how a job's status remembers which pods it had, and when something happened to them;
text, because that is all that the field of Volcano's status which we keep it in can hold.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from stromboli.api.numerals import as_number

__all__ = ["WHOLE", "as_indexes", "as_numbers", "as_text", "numbers_as_text"]

WHOLE: Final = -1
"""In place of an index: the task or the job as a whole."""

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
        start, end = as_number(first), as_number(last or first)
        if start is not None and end is not None:
            found.update(range(start, min(end, start + _LONGEST_RUN) + 1))
    return frozenset(found)


def numbers_as_text(numbers: Mapping[int, int]) -> str:
    """A number for each index; those with the same one stand together."""
    together: dict[int, list[int]] = {}
    for index, number in numbers.items():
        together.setdefault(number, []).append(index)
    parts: list[str] = []
    for number, indexes in sorted(together.items()):
        if WHOLE in indexes:
            parts.append(f"{number}:")
        runs = as_text(index for index in indexes if index >= 0)
        if runs:
            parts.append(f"{number}:{runs}")
    return ";".join(parts)


def as_numbers(text: str) -> dict[int, int]:
    """The number of each index; a part that is not of that form is left out."""
    numbers: dict[int, int] = {}
    for part in text.split(";"):
        first, colon, runs = part.partition(":")
        number = as_number(first) if colon else None
        if number is None:
            continue
        for index in as_indexes(runs) if runs else (WHOLE,):
            numbers[index] = number
    return numbers
