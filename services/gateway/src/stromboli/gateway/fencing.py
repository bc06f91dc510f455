"""Which epochs each partition still listens to, remembered across restarts of the gateway.

The fence is stored before it is answered: a gateway that takes over afterwards refuses the
old leader's late intents just the same.
"""

from dataclasses import dataclass, field

import msgspec

from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.streams import FENCE_SUBJECT, FENCES
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.publisher import Publisher

_epochs = msgspec.msgpack.Decoder(Epoch)


@dataclass(slots=True)
class FenceBook:
    """The fences of all partitions."""

    jetstream: JetStream
    publisher: Publisher
    _known: dict[str, Epoch] = field(default_factory=dict)

    async def epoch_of(self, partition: int, service: str, shard: str) -> Epoch:
        """The lowest epoch that may still speak here."""
        subject = FENCE_SUBJECT.format(partition=partition, service=service, shard=shard)
        known = self._known.get(subject)
        if known is None:
            stored = await self.jetstream.last_message(FENCES.name, subject)
            known = NO_EPOCH if stored is None else _epochs.decode(stored.payload)
            self._known[subject] = known
        return known

    async def raise_to(self, partition: int, service: str, shard: str, epoch: Epoch) -> None:
        """From now on nobody below this epoch is heard here."""
        subject = FENCE_SUBJECT.format(partition=partition, service=service, shard=shard)
        await self.publisher.publish(subject, msgspec.msgpack.encode(epoch))
        self._known[subject] = epoch
