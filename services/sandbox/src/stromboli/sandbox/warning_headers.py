"""Warnings beside an answer, as headers that kubectl prints and everybody else may ignore.

`299 - "text"`, each text once, and no more of them than a client's header limit takes.
"""

from collections.abc import Iterable
from typing import Final

from aiohttp import web

__all__ = ["add_warnings"]

_TOTAL_BYTES: Final = 4096
_SHORTENED: Final = 256
"""How much of each is told when all of them together are too much."""


def add_warnings(response: web.StreamResponse, warnings: Iterable[str]) -> None:
    texts = [_printable(text) for text in dict.fromkeys(warnings)]
    too_much = sum(map(len, texts)) > _TOTAL_BYTES
    spent = 0
    for text in texts:
        told = text[:_SHORTENED] if too_much else text
        spent += len(told)
        if spent > _TOTAL_BYTES:
            return
        quoted = told.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')


def _printable(text: str) -> str:
    """Line breaks and the like would end the header."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
