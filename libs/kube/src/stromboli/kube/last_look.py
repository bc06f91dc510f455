"""A last look before a write leaves this process: is it still ours to make?

Between the decision to call and the bytes on the wire lie a slot, a connection, a handshake. A
process that was frozen in there, and wakes up when another one leads, must not send what it
had in mind. The look is taken when the body is written; until then nothing has left, because
aiohttp holds the headers back for the body.

    with last_look(check):          # `check` raises when the write must not be made any more
        await kube.patch(…)         # then ends as Unreachable, and nothing was sent
"""

import io
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter

__all__ = ["body_of", "last_look"]

LARGE_BODY_BYTES: Final = 512 * 1024

_check: ContextVar[Callable[[], None] | None] = ContextVar("last look", default=None)


@contextmanager
def last_look(check: Callable[[], None]) -> Generator[None]:
    """Call `check` before each write of this block leaves."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


class _CheckedBytes(aiohttp.BytesPayload):
    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        _look()
        await super().write_with_length(writer, content_length)


class _CheckedFile(aiohttp.BytesIOPayload):
    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        _look()
        await super().write_with_length(writer, content_length)


def body_of(body: bytes | None) -> aiohttp.Payload | None:
    """What aiohttp is given to send."""
    if body is None:
        return None
    # aiohttp writes bytes in one go, and warns that a large one would hold up the loop.
    if len(body) > LARGE_BODY_BYTES:
        return _CheckedFile(io.BytesIO(body))
    return _CheckedBytes(body)


def _look() -> None:
    check = _check.get()
    if check is not None:
        check()
