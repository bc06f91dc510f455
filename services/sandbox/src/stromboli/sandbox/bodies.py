"""Bodies that arrive in pieces, read up to a limit.

One read of a stream gives what has arrived so far. Whether the body ends there, only the next
read can tell.
"""

from aiohttp import StreamReader

__all__ = ["start_of"]


async def start_of(content: StreamReader, size: int) -> bytes:
    """The whole body, or its first `size` bytes if it is longer."""
    pieces: list[bytes] = []
    missing = size
    while missing and (piece := await content.read(missing)):
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
