"""Which epochs each partition still listens to, remembered across restarts of the gateway.

The fence is stored before it is answered: a gateway that takes over afterwards refuses the
old leader's late intents just the same. A fence that nobody can read lets nobody through but
the next fence, which replaces it.
"""

from dataclasses import dataclass, field

import msgspec

from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.streams import FENCE_PROOF, FENCE_SUBJECT, FENCES
from stromboli.runtime.bus.confirmed_read import read_confirmed
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import Publisher

_BUCKET = FENCES.name.removeprefix("KV_")
"""Its name for people: an underscore is not usable in the subject of a dead letter."""

_epochs = msgspec.msgpack.Decoder(Epoch)


@dataclass(slots=True)
class FenceBook:
    """The fences of all partitions."""

    jetstream: JetStream
    publisher: Publisher
    office: DeadLetterOffice
    _known: dict[str, Epoch | None] = field(default_factory=dict)

    async def epoch_of(self, partition: int, service: str, shard: str) -> Epoch | None:
        """The lowest epoch that may still speak here; None when that can't be read."""
        subject = FENCE_SUBJECT.format(partition=partition, service=service, shard=shard)
        if subject not in self._known:
            self._known[subject] = await self._read(subject)
        return self._known[subject]

    async def _read(self, subject: str) -> Epoch | None:
        # A leader of the stream that was replaced may not know the newest fence: a write does.
        stored = await read_confirmed(
            self.jetstream, self.publisher, stream=FENCES.name, subject=subject, proof=FENCE_PROOF
        )
        if stored is None:
            return NO_EPOCH
        try:
            return _epochs.decode(stored.payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            letter = Unreadable(_BUCKET, "", subject, stored.sequence, stored.payload)
            await self.office.put_aside(letter, f"a fence that can't be read: {problem}")
            return None

    async def raise_to(self, partition: int, service: str, shard: str, epoch: Epoch) -> None:
        """From now on nobody below this epoch is heard here."""
        subject = FENCE_SUBJECT.format(partition=partition, service=service, shard=shard)
        await self.publisher.publish(subject, msgspec.msgpack.encode(epoch))
        self._known[subject] = epoch
