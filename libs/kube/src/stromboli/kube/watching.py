"""Read a watch: whole events, in order, until the server ends it or something breaks.

An ERROR event is never handed over: it becomes the exception that it means, after
everything that came before it was. The end of a watch is normal (the server closes
each after its timeout); a body that stops in the middle of an event is not.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from stromboli.kube.errors import KubeError, TooLarge, Undecodable, Unreachable, api_error
from stromboli.kube.lines import Lines, LineTooLong
from stromboli.kube.status import Status
from stromboli.kube.transport import Stream
from stromboli.kube.wire import EventType, WatchEvent, decode_watch_line

__all__ = ["Watch"]


class Watch:
    """The events of one watch, in batches as they arrive."""

    def __init__(
        self, request: str, stream: Stream, *, max_object_bytes: int, lasts_s: float
    ) -> None:
        self._request = request
        self._stream = stream
        self._lines = Lines(limit_bytes=max_object_bytes)
        self._ends_at = asyncio.get_running_loop().time() + lasts_s
        self._failure: KubeError | None = None

    async def read(self) -> list[WatchEvent]:
        """At least one event; none when the server ended the watch."""
        while self._failure is None:
            try:
                async with asyncio.timeout_at(self._ends_at):
                    chunk = await self._stream.read_chunk()
            except TimeoutError as error:
                raise Unreachable(
                    self._request, "the watch went on after its end", maybe_applied=False
                ) from error
            if not chunk:
                if self._lines.pending_bytes:
                    raise Unreachable(
                        self._request, "cut off in the middle of an event", maybe_applied=False
                    )
                return []
            if events := self._decode(chunk):
                return events
        raise self._failure

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        while events := await self.read():
            for event in events:
                yield event

    def _decode(self, chunk: bytes) -> list[WatchEvent]:
        """The events before a failure; the failure itself is raised by the next read."""
        events: list[WatchEvent] = []
        try:
            for line in self._lines.feed(chunk):
                event = decode_watch_line(line)
                if event.type is EventType.ERROR:
                    status = msgspec.json.decode(event.object, type=Status)
                    self._failure = api_error(self._request, status)
                    break
                events.append(event)
        except LineTooLong as error:
            what = f"an object in {self._request} (it begins {error.head[:300]!r})"
            self._failure = TooLarge(what, error.limit_bytes, "limits.max_object_bytes")
        except msgspec.DecodeError as error:
            self._failure = Undecodable(self._request, str(error), maybe_applied=False)
        return events
