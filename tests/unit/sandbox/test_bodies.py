"""Bodies in pieces: whatever the pieces are, what is read is the body or its beginning."""

import asyncio
from unittest.mock import Mock

from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.sandbox.bodies import start_of
from stromboli.testkit.effort import examples

pieces = st.lists(st.binary(min_size=1, max_size=20), max_size=8)


async def read_as_it_arrives(arriving: list[bytes], size: int) -> bytes:
    loop = asyncio.get_running_loop()
    content = StreamReader(Mock(spec=BaseProtocol), limit=2**16, loop=loop)
    reading = asyncio.create_task(start_of(content, size))
    for piece in arriving:
        content.feed_data(piece)
        await asyncio.sleep(0)  # the reader takes each before the next is there
        await asyncio.sleep(0)
    content.feed_eof()
    return await reading


@settings(max_examples=examples(200))
@given(arriving=pieces, size=st.integers(0, 100))
def test_a_body_is_read_to_its_end_or_to_the_limit(arriving: list[bytes], size: int):
    assert asyncio.run(read_as_it_arrives(arriving, size)) == b"".join(arriving)[:size]
