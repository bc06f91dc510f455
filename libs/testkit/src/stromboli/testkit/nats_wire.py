"""A wire between a client and a NATS server that can lose what the server says.

The client's bytes always arrive. So a message can be stored while its acknowledgement is lost,
which is the one accident that no server can be made to cause at a chosen moment.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

__all__ = ["NatsWire", "nats_wire"]

_CHUNK = 1 << 16


@dataclass(slots=True)
class NatsWire:
    """Forwards connections to a server on this machine; make one with `nats_wire`."""

    server_port: int
    port: int = 0
    _deaf: bool = False
    _links: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _pumps: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def lose_answers(self) -> None:
        """From now on nothing that the server says arrives, until the wire is cut."""
        self._deaf = True

    def cut(self) -> None:
        """End every connection; the next one works again."""
        self._deaf = False
        for writer in tuple(self._links):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._pumps.add(this)
        try:
            upstream, to_server = await asyncio.open_connection("127.0.0.1", self.server_port)
            self._links |= {writer, to_server}
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, to_server, answers=False))
                    group.create_task(self._pump(upstream, writer, answers=True))
            finally:
                self._links -= {writer, to_server}
                for end in (writer, to_server):
                    end.transport.abort()
        except (OSError, asyncio.CancelledError, BaseExceptionGroup):
            writer.transport.abort()
        finally:
            self._pumps.discard(this)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        while data := await source.read(_CHUNK):
            if answers and self._deaf:
                continue
            target.write(data)
            await target.drain()
        raise ConnectionResetError("one end has closed")

    async def end(self) -> None:
        self.cut()
        while self._pumps:
            for pump in tuple(self._pumps):
                pump.cancel()
            await asyncio.wait(tuple(self._pumps))


@contextlib.asynccontextmanager
async def nats_wire(server_port: int) -> AsyncGenerator[NatsWire]:
    """A wire to the server at this port, for as long as the block runs."""
    wire = NatsWire(server_port)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        await wire.end()
        await server.wait_closed()
