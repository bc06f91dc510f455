"""The few JetStream API calls we make, as plain requests with JSON bodies.

Raw requests, because nats-py's configuration classes lag behind the server and because the
subjects of these calls are what the permissions are about.
"""

from typing import Any, TypeVar

import msgspec

from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.errors import JetStreamError

_PREFIX = "$JS.API"
NANOSECONDS = 1_000_000_000
_NO_MESSAGE = 10037

T = TypeVar("T")


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Failed(msgspec.Struct):
    error: _Error | None = None


class StreamState(msgspec.Struct):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    num_subjects: int = 0


class _Subjects(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _SubjectPage(msgspec.Struct):
    state: _Subjects
    total: int = 0


class StreamInfo(msgspec.Struct):
    config: dict[str, Any]
    created: str
    state: StreamState


class ConsumerInfo(msgspec.Struct):
    name: str
    stream_name: str = ""
    num_pending: int = 0


class _ConsumerNames(msgspec.Struct):
    consumers: list[str] | None = None
    total: int = 0


class Stored(msgspec.Struct):
    """A message as it stands in a stream."""

    subject: str
    sequence: int
    headers: dict[str, str]
    payload: bytes


class _Message(msgspec.Struct):
    subject: str
    seq: int
    hdrs: bytes = b""
    data: bytes = b""


class _Found(msgspec.Struct):
    message: _Message


class JetStream:
    """JetStream's API over one connection."""

    def __init__(self, connection: BusConnection) -> None:
        self._connection = connection

    async def stream_info(self, stream: str) -> StreamInfo:
        return await self._call(f"STREAM.INFO.{stream}", None, StreamInfo)

    async def subjects(self, stream: str, filter_subject: str) -> set[str]:
        """The subjects of a stream that hold a message."""
        found: set[str] = set()
        while True:
            body = {"subjects_filter": filter_subject, "offset": len(found)}
            page = await self._call(f"STREAM.INFO.{stream}", body, _SubjectPage)
            found |= set(page.state.subjects or ())
            if not page.state.subjects or len(found) >= page.total:
                return found

    async def create_stream(self, config: dict[str, Any]) -> StreamInfo:
        return await self._call(f"STREAM.CREATE.{config['name']}", config, StreamInfo)

    async def update_stream(self, config: dict[str, Any]) -> StreamInfo:
        return await self._call(f"STREAM.UPDATE.{config['name']}", config, StreamInfo)

    async def create_consumer(self, stream: str, config: dict[str, Any]) -> ConsumerInfo:
        """Create a named consumer; one filter goes into the subject, where rights see it."""
        call = f"CONSUMER.CREATE.{stream}.{config['name']}"
        if filter_subject := config.get("filter_subject"):
            call += f".{filter_subject}"
        body = {"stream_name": stream, "config": config, "action": "create"}
        return await self._call(call, body, ConsumerInfo)

    async def delete_consumer(self, stream: str, name: str) -> None:
        await self._call(f"CONSUMER.DELETE.{stream}.{name}", None, _Failed)

    async def consumer_names(self, stream: str) -> list[str]:
        names: list[str] = []
        while True:
            body = {"offset": len(names)}
            page = await self._call(f"CONSUMER.NAMES.{stream}", body, _ConsumerNames)
            names += page.consumers or []
            if not page.consumers or len(names) >= page.total:
                return names

    async def last_message(self, stream: str, subject: str) -> Stored | None:
        """The newest message of a subject, or None, as far as the stream's leader knows.

        No other replica answers. But a leader that was replaced while it was frozen answers
        from the past until it hears of that. Who acts on the answer must write with the
        sequence that it read, or use `read_confirmed`.
        """
        return await self._get(stream, {"last_by_subj": subject})

    async def message(self, stream: str, sequence: int) -> Stored | None:
        """The message with this sequence; None if a newer one has taken its place."""
        return await self._get(stream, {"seq": sequence})

    async def _get(self, stream: str, which: dict[str, object]) -> Stored | None:
        try:
            found = await self._call(f"STREAM.MSG.GET.{stream}", which, _Found)
        except JetStreamError as problem:
            if problem.error_code == _NO_MESSAGE:
                return None
            raise
        message = found.message
        return Stored(message.subject, message.seq, _headers(message.hdrs), message.data)

    async def _call(self, call: str, body: object, answer_type: type[T]) -> T:
        payload = b"" if body is None else msgspec.json.encode(body)
        answer = await self._connection.request(f"{_PREFIX}.{call}", payload)
        failed = msgspec.json.decode(answer.data, type=_Failed)
        if failed.error is not None:
            error = failed.error
            raise JetStreamError(call, error.code, error.err_code, error.description)
        return msgspec.json.decode(answer.data, type=answer_type)


def _headers(block: bytes) -> dict[str, str]:
    """The headers of a stored message, as they were on the wire."""
    lines = block.decode(errors="replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {key: value.strip() for key, _, value in pairs}
