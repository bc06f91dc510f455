"""`vcctl bus tail`: what the services tell each other, one JSON object per line.

Facts and outcomes come from their streams by a reader, so none is missed while the tail runs.
Intents are a work queue, from which reading takes away: they are only listened to, and those
that pass while the connection is down are not shown. Messages are decoded without their
types, so that those of a newer version, and rubbish, are shown too.
"""

import asyncio
import base64
from argparse import Namespace
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from stromboli.contracts.permissions import OPERATOR
from stromboli.contracts.streams import INTENT, OUTCOME, STATE
from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.redaction import Secret
from stromboli.vcctl.errors import BusOutOfReach, UnusableFile

__all__ = ["line_of", "tail"]

CONNECT_DEADLINE_S: Final = 10.0

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Passing(Protocol):
    """A message as a plain subscription hears it."""

    subject: str
    data: bytes


def line_of(subject: str, payload: bytes, moment: datetime) -> str:
    """One message for people and for `jq`: when, where, what, and all it says."""
    try:
        fields: Any = msgspec.msgpack.decode(payload)
        kind: object = fields.pop("type")
    except (*_UNREADABLE, AttributeError, KeyError, TypeError) as problem:
        kind = "undecodable"
        fields = {"problem": str(problem) or type(problem).__name__, "payload": payload}
    line = {
        "time": moment.astimezone(UTC).isoformat(timespec="milliseconds"),
        "subject": subject,
        "type": kind,
        "fields": _readable(fields),
    }
    return msgspec.json.encode(line).decode()


def _readable(value: Any) -> Any:
    """Bytes in our messages are JSON (manifests, patches); anything else is shown as base64."""
    match value:
        case dict():
            return {str(key): _readable(member) for key, member in value.items()}
        case list():
            return [_readable(member) for member in value]
        case bytes():
            try:
                return msgspec.json.decode(value)
            except _UNREADABLE:
                return base64.b64encode(value).decode()
        case _:
            return value


@dataclass(slots=True)
class _Lines:
    """Writes a line for each message of one stream, from now on or from its beginning."""

    write: Callable[[str], None]
    from_the_beginning: bool
    incarnation: str = ""
    last: int = 0

    def attach(self, position: LogPosition) -> int:
        if not self.incarnation and not self.from_the_beginning:
            self.last = position.last_sequence
        elif position.incarnation != self.incarnation:
            self.last = 0
        self.incarnation = position.incarnation
        return self.last + 1

    def apply(self, message: LogMessage) -> None:
        self.last = message.sequence
        moment = datetime.fromtimestamp(message.timestamp, UTC)
        self.write(line_of(message.subject, message.payload, moment))

    def caught_up(self) -> None:
        """A tail waits for what comes next."""


async def tail(options: Namespace, write: Callable[[str], None]) -> None:
    """Write lines until cancelled; without a choice among the three families, all of them."""
    settings = _settings(options)
    chosen_all = not (options.facts or options.intents or options.outcomes)
    streams = [
        stream.name
        for stream, chosen in ((STATE, options.facts), (OUTCOME, options.outcomes))
        if chosen or chosen_all
    ]
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                connection = await stack.enter_async_context(connect(settings, OPERATOR))
        except TimeoutError as late:
            raise BusOutOfReach(settings.url, CONNECT_DEADLINE_S) from late
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if options.intents or chosen_all:
            await _listen(connection, write, ended)
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                lines = _Lines(write, from_the_beginning=options.replay)
                reader = LogReader(connection, SystemClock(), stream=stream, listener=lines)
                group.create_task(reader.run())
            await ended


async def _listen(
    connection: BusConnection, write: Callable[[str], None], ended: "asyncio.Future[None]"
) -> None:
    """Write a line for each intent that passes; a line that can't be written ends the tail."""

    async def hear(message: _Passing) -> None:
        try:
            write(line_of(message.subject, message.data, datetime.now(UTC)))
        except OSError as problem:  # nats-py would log it and go on
            if not ended.done():
                ended.set_exception(problem)

    for subject in INTENT.subjects:
        await connection.subscribe(subject, hear)


def _settings(options: Namespace) -> BusSettings:
    if not options.password_file:
        return BusSettings(url=options.url)
    try:
        password = Path(options.password_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise UnusableFile(f"the password can not be read: {fault}") from fault
    return BusSettings(url=options.url, user=options.user, password=Secret(password))
