"""Whole numbers in text that anybody may have written."""

from typing import Final

__all__ = ["as_number"]

_MOST_DIGITS: Final = 18


def as_number(text: str) -> int | None:
    """None for what is not plain digits, or too many of them for any number of ours."""
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)
