"""Read what stands on a subject now, and not what stood there a moment ago.

A replicated stream has one leader, but a server that was frozen or cut off goes on believing
that it leads until it hears of its successor, and answers reads from the past meanwhile. No
read of NATS tells the two apart (`min_last_seq` was taken out before 2.12). A write does: only
the true leader gets a majority to store it. So the read is confirmed by a small write which is
stored only if the subject's last message still is the one that was read.
"""

import asyncio

from stromboli.runtime.bus.errors import WrongLastSequence
from stromboli.runtime.bus.jetstream import JetStream, Stored
from stromboli.runtime.bus.publisher import EXPECTED_LAST_ON, Publisher

_AGAIN_S = 0.05


async def read_confirmed(
    jetstream: JetStream, publisher: Publisher, *, stream: str, subject: str, proof: str
) -> Stored | None:
    """The newest message of a subject when this was called, or a later one; None for none.

    `proof` is a subject of the same stream that nobody reads: the confirming write goes there.
    """
    while True:
        stored = await jetstream.last_message(stream, subject)
        try:
            await publisher.publish(
                proof,
                b"",
                headers={EXPECTED_LAST_ON: subject},
                expect_last=0 if stored is None else stored.sequence,
            )
        except WrongLastSequence:
            await asyncio.sleep(_AGAIN_S)
            continue
        return stored
