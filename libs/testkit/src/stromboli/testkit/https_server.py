"""An aiohttp application on 127.0.0.1 behind TLS, whose end leaves nothing open.

For what an API server connects to: webhooks, kubelets. Those clients keep their connections for
as long as they can, so at the end they are cut off instead of asked.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from stromboli.testkit.certificates import KeyPair

__all__ = ["Listening", "https_server"]


class Listening:
    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0
        """How many were made, ever."""


@asynccontextmanager
async def https_server(app: web.Application, keys: KeyPair) -> AsyncGenerator[Listening, None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    make_handler = runner.server
    assert make_handler is not None
    listening = Listening(0)
    handlers: list[RequestHandler] = []

    def connected() -> asyncio.Protocol:
        listening.connections += 1
        handlers.append(make_handler())
        return handlers[-1]

    server = await asyncio.get_running_loop().create_server(connected, "127.0.0.1", 0, ssl=context)
    listening.port = server.sockets[0].getsockname()[1]
    try:
        yield listening
    finally:
        server.close()
        for handler in handlers:
            if isinstance(handler.transport, asyncio.WriteTransport):
                handler.transport.abort()
        await runner.cleanup()
        # Sockets of cut connections are closed one step of the loop later.
        await asyncio.sleep(0.01)
