"""Start one of our own services as a real process and talk to it from outside.

A service under test is what runs in production: `python -m stromboli.<service>` with
settings from its environment. It logs JSON lines, so a test reads events, not prose, and
it tells its health port in one of them, so no port is ever guessed.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec

from stromboli.testkit.processes import ChildProcess
from stromboli.testkit.waiting import NeverHappened, eventually

__all__ = ["LogEvent", "ServiceProcess"]

LogEvent: TypeAlias = dict[str, Any]

_LISTENING: Final = "health.listening"
_CONFIGURING: Final = ("STROMBOLI_", "OTEL_", "LOG_")
"""Prefixes of variables that would configure a service by accident of the test's shell."""


class ServiceProcess(ChildProcess):
    """One of our services, or any module that logs as they do."""

    def __init__(
        self,
        module: str,
        *,
        directory: Path,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(_CONFIGURING)
        }
        short_name = name or module.rpartition(".")[2]
        super().__init__(
            [sys.executable, "-m", module, *args],
            name=short_name,
            log=directory / f"{short_name}.log",
            env={**inherited, "LOG_FORMAT": "json", **(env or {})},
            cwd=directory,
        )

    def events(self, name: str | None = None) -> list[LogEvent]:
        """Its log lines as values; those with that event name, or all."""
        found: list[LogEvent] = []
        for line in self.log_text().splitlines():
            try:
                decoded = msgspec.json.decode(line, type=LogEvent)
            except msgspec.DecodeError:
                continue  # a traceback, or a line being written
            if name is None or decoded.get("event") == name:
                found.append(decoded)
        return found

    async def until_event(self, name: str, deadline_s: float = 10.0, **fields: object) -> LogEvent:
        """Its first log line with that event name and these fields."""

        def first() -> LogEvent | None:
            for event in self.events(name):
                if all(event.get(key) == value for key, value in fields.items()):
                    return event
            return None

        wanted = " ".join([name, *(f"{key}={value!r}" for key, value in fields.items())])
        return await self.until(first, deadline_s=deadline_s, what=f"never logged {wanted}")

    async def health_url(self, deadline_s: float = 10.0) -> str:
        """Where its /readyz, /livez and /metrics are."""
        event = await self.until_event(_LISTENING, deadline_s)
        return f"http://{event['host']}:{event['port']}"

    async def until_ready(self, deadline_s: float = 20.0) -> str:
        """Its health address, once /readyz says 200."""
        url = await self.health_url(deadline_s)
        answer = ""

        async def is_ready() -> bool:
            nonlocal answer
            if not self.running:
                raise self._failed(f"ended with code {self.returncode} before it was ready")
            async with aiohttp.ClientSession() as session:
                try:
                    async with session.get(f"{url}/readyz?verbose") as response:
                        answer = await response.text()
                        return response.status == 200
                except aiohttp.ClientError as error:
                    answer = repr(error)
                    return False

        try:
            await eventually(is_ready, deadline_s=deadline_s, interval_s=0.05)
        except NeverHappened as error:
            what = f"was not ready within {deadline_s:g} s; /readyz said: {answer}"
            raise self._failed(what) from error
        return url
