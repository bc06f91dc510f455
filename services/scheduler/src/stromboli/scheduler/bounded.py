"""Read what another server says, and no more of it than one can hold.

A peer that never stops talking must not fill the memory of who listens (CVE-2025-32777).
"""

import aiohttp

__all__ = ["read_bounded"]


async def read_bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    """All of it; raises ValueError when there is more than `most` bytes."""
    parts: list[bytes] = []
    total = 0
    async for part in response.content.iter_any():
        total += len(part)
        if total > most:
            raise ValueError(f"the answer is longer than {most} bytes")
        parts.append(part)
    return b"".join(parts)
