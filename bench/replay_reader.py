"""`python -m bench.replay_reader URL KINDS`: read STATE into a view, once, and say what it took.

A process of its own, because the memory of a view is visible only in one that did nothing else.
"""

import asyncio
import gc
import os
import sys
import time
from typing import Any

import msgspec
import uvloop

from bench.peer import decode
from bench.servers import rss_bytes
from stromboli.contracts.streams import STATE
from stromboli.runtime import logs
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.reader import LogMessage, LogReader
from stromboli.runtime.bus.view import Delta, View
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.logs import LogLevel, LogSettings
from stromboli.testkit.tasks import background

__all__ = ["Replayed"]

_DEADLINE_S = 100.0


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What one replay took."""

    objects: int
    seconds: float
    rss_bytes: int


class _Observer:
    """What a service's core would be: it hears every delta and keeps none."""

    def __init__(self, kinds: set[str]) -> None:
        self._unsynced = kinds
        self.complete = asyncio.Event()

    def changed(self, delta: Delta[Any]) -> None:
        pass

    def synced(self, kind: str) -> None:
        self._unsynced.discard(kind)
        if not self._unsynced:
            self.complete.set()

    def unreadable(self, message: LogMessage, reason: str) -> None:
        raise ValueError(f"a fact on {message.subject} can't be read: {reason}")


async def _replay(url: str, tokens: list[str]) -> Replayed:
    observer = _Observer(set(tokens))
    view: View[Any] = View(tokens, decode, observer)
    async with connect(BusSettings(url=url), "scheduler") as connection:
        filters = [f"vc.state.{token}.>" for token in (*tokens, "sync")]
        reader = LogReader(
            connection, SystemClock(), stream=STATE.name, filters=filters, listener=view
        )
        gc.collect()
        before = rss_bytes(os.getpid())
        started = time.perf_counter()
        async with background(reader.run()):
            async with asyncio.timeout(_DEADLINE_S):
                await observer.complete.wait()
            seconds = time.perf_counter() - started
        gc.collect()
        return Replayed(
            objects=sum(len(view.objects(token)) for token in tokens),
            seconds=seconds,
            rss_bytes=rss_bytes(os.getpid()) - before,
        )


def main() -> None:
    url, tokens = sys.argv[1:]
    logs.configure(LogSettings(level=LogLevel.ERROR), service="bench")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        replayed = runner.run(_replay(url, tokens.split(",")))
    print(msgspec.json.encode(replayed).decode())


if __name__ == "__main__":
    main()
