r"""Cut a watch's body into lines, however it was cut into chunks on the way.

A watch is one JSON object per line, and a line is as long as its object. Stream readers put
a bound on a line that nobody chose for objects (64 KiB to 2 MiB); here the bound is the
largest object that we agreed to read, and beyond it the error names that limit. No I/O here.
"""

__all__ = ["LineTooLong", "Lines"]


class LineTooLong(Exception):
    """A line passed the limit before it ended; `head` is how it begins."""

    def __init__(self, limit_bytes: int, head: bytes) -> None:
        self.limit_bytes = limit_bytes
        self.head = head
        super().__init__(f"a line is longer than {limit_bytes} bytes")


HEAD_BYTES = 2048
"""Enough of an over-long line to find out which object it is."""


class Lines:
    """Feed chunks in, get whole lines out; what has no end yet stays inside."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # Pieces of the unfinished line. Joining once per line keeps a long line linear.
        self._pieces: list[bytes] = []
        self._pending_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """How much of an unfinished line is waiting; not zero at the end means a cut-off."""
        return self._pending_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line ends; empty lines are skipped."""
        first, *rest = chunk.split(b"\n")
        self._keep(first)
        if not rest:
            return []
        *whole, last = rest
        lines = [b"".join(self._pieces), *whole]
        self._pieces.clear()
        self._pending_bytes = 0
        for line in whole:
            self._check(len(line), line)
        self._keep(last)
        return [line for line in lines if line]

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._pending_bytes += len(piece)
            self._check(self._pending_bytes, self._pieces[0])

    def _check(self, size: int, head: bytes) -> None:
        if size > self._limit_bytes:
            raise LineTooLong(self._limit_bytes, head[:HEAD_BYTES])
