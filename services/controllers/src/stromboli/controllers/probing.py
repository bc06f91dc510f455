"""Find out whether a pod answers: the one thing that the controllers do themselves.

A connection and one request, written by hand: what is asked is a single GET, and only the
first line of the answer matters, which may come from anything that a user runs. Nothing of
the answer but its status is kept, and neither time nor size is left to the other side.
"""

import asyncio
import contextlib
from typing import Final

from stromboli.contracts.stimuli import Probe, ProbeAnswered

__all__ = ["carry_out"]

_LONGEST_LINE: Final = 4096
_LONGEST_TIMEOUT_S: Final = 10.0
_GOOD: Final = range(200, 400)


async def carry_out(probe: Probe) -> ProbeAnswered:
    """Always answers, within the probe's time."""
    try:
        async with asyncio.timeout(min(probe.timeout_s, _LONGEST_TIMEOUT_S)):
            succeeded, said = await _attempt(probe)
    except TimeoutError:
        succeeded, said = False, f"no answer within {probe.timeout_s:g}s"
    except (OSError, ValueError) as problem:
        succeeded, said = False, str(problem)
    return ProbeAnswered(probe_id=probe.id, key=probe.key, succeeded=succeeded, said=said)


async def _attempt(probe: Probe) -> tuple[bool, str]:
    request = _request(probe) if probe.path else b""
    reader, writer = await asyncio.open_connection(probe.host, probe.port, limit=_LONGEST_LINE)
    try:
        if not request:
            return True, "connected"
        writer.write(request)
        await writer.drain()
        return _judge(await reader.readline())
    finally:
        writer.close()
        # Whoever answered may go away as rudely as it likes now.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.1):
                await writer.wait_closed()


def _request(probe: Probe) -> bytes:
    host = f"[{probe.host}]" if ":" in probe.host else probe.host
    headers = {"Host": f"{host}:{probe.port}", "User-Agent": "stromboli-probe"}
    headers |= dict(probe.headers)
    lines = [f"GET {probe.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a path or a header of the probe has a line break in it")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


def _judge(line: bytes) -> tuple[bool, str]:
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return False, "the answer is not HTTP"
    status = int(words[1])
    return status in _GOOD, f"HTTP status {status}"
