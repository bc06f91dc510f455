"""Whether a process is ready, or else why not, in words for people.

It is asked as its users ask it, so one that hangs is found out though it still accepts connections.
"""

import asyncio
from typing import Final

import aiohttp

from stromboli.launcher.plan import Planned

__all__ = ["asking", "why_not_ready"]

_HOST: Final = "127.0.0.1"
_ANSWER_S: Final = 2.0


def asking() -> aiohttp.ClientSession:
    """What `why_not_ready` asks with. Deadlines are its own."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))


async def why_not_ready(planned: Planned, session: aiohttp.ClientSession) -> str:
    """Empty if it is ready."""
    if planned.ready_file is not None and not planned.ready_file.exists():
        return f"it has not written {planned.ready_file} yet"
    try:
        async with asyncio.timeout(_ANSWER_S):
            if planned.ready_port:
                await _greeted(planned.ready_port)
            return await _told(planned, session) if planned.ready_url else ""
    except TimeoutError:
        return f"it hangs: there was no answer within {_ANSWER_S:g} s"
    except (OSError, aiohttp.ClientError, asyncio.IncompleteReadError):
        return "it does not listen"


async def _greeted(port: int) -> None:
    """A NATS server speaks first."""
    reader, writer = await asyncio.open_connection(_HOST, port)
    try:
        await reader.readexactly(len(b"INFO"))
    finally:
        writer.close()


async def _told(planned: Planned, session: aiohttp.ClientSession) -> str:
    # The embedded API server's certificate is of its own making, and no secret is sent.
    async with session.get(planned.ready_url, ssl=False) as response:
        if response.status == 200:
            return ""
        lines = (await response.text()).splitlines()
        failed = [line.removeprefix("[-] ") for line in lines if line.startswith("[-] ")]
        # The check of the whole is called like the service.
        reasons = [check.removeprefix(f"{planned.name}: ") for check in failed]
        return "; ".join(reasons) or f"it answers {response.status}"
