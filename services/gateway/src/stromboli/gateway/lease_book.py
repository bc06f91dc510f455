"""Whose intents are heard: of each service and shard, those of the holder of its lease.

A lease is read when a sender is met for the first time, and anew when a fence of its arrives. In
between nobody has to tell us that it changed hands: what a deposed leader stored before its
successor's fence is applied before that fence is answered, so the successor knows of it.

An intent of another epoch is finished if a gateway may have begun it before the fence was
stored, because then its effect can't be taken back. All others are refused: nothing was done.
Epochs are compared for equality alone, so that no epoch, however large, stops anybody.
"""

import asyncio
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import Fence
from stromboli.contracts.leases import LEASE_PROOF, lease_subject
from stromboli.contracts.streams import LEASES
from stromboli.gateway.answered import Sender
from stromboli.runtime.bus.confirmed_read import read_confirmed
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.leases import HeldLease, held_lease
from stromboli.runtime.bus.publisher import Publisher

__all__ = ["FenceIs", "LeaseBook"]

_LOOK_S = 0.05
_PATIENCE_S = 5.0
"""Longer than a lease lives: who has not noted its fence by then does not lead any more."""


class FenceIs(Enum):
    """What a fence turned out to be."""

    RAISED = auto()
    """It is the one that the lease of its sender names."""
    A_COPY = auto()
    """It was stored twice, and the lease names the copy that comes later."""
    FOREIGN = auto()
    """The lease names another one, or another holder, or there is none."""


class _Known(msgspec.Struct, frozen=True):
    epoch: Epoch | None
    """Whose turn it is; None when nobody holds the lease."""
    fence: int
    """Where its fence stands on INTENT; 0 when it has none yet."""


@dataclass(slots=True)
class LeaseBook:
    """The leases of the services that ask, as last read in this turn."""

    jetstream: JetStream
    publisher: Publisher
    _known: dict[Sender, _Known] = field(default_factory=dict[Sender, "_Known"])

    async def accepts(
        self, sender: Sender, epoch: Epoch, sequence: int, *, may_have_begun: bool
    ) -> bool:
        """May an intent of this epoch, stored under this sequence, be applied?"""
        known = self._known.get(sender)
        if known is None:
            known = self._known[sender] = await self._read(sender)
        if epoch == known.epoch:
            return True
        return may_have_begun and (known.epoch is None or sequence < (known.fence or sequence + 1))

    def fence_arrived(self, sender: Sender) -> None:
        """The lease has changed hands, or somebody says so: read it again."""
        self._known.pop(sender, None)

    async def raise_fence(self, sender: Sender, fence: Fence, sequence: int, log: str) -> FenceIs:
        """Believe a fence if the live lease names it.

        The holder notes its fence in the lease when it knows where that is stored, which may be
        after we have received it.
        """
        waited_s = 0.0
        while True:
            held = await self._held(sender)
            if held is None or held.epoch != fence.epoch:
                return FenceIs.FOREIGN
            if held.value.fence_log == log and held.value.fence:
                break
            if waited_s >= _PATIENCE_S:
                return FenceIs.FOREIGN
            await asyncio.sleep(_LOOK_S)
            waited_s += _LOOK_S
        if held.value.fence > sequence:
            return FenceIs.A_COPY
        if held.value.fence < sequence:
            return FenceIs.FOREIGN
        self._known[sender] = _Known(held.epoch, sequence)
        return FenceIs.RAISED

    async def _read(self, sender: Sender) -> _Known:
        held = await self._held(sender)
        return _Known(None, 0) if held is None else _Known(held.epoch, held.value.fence)

    async def _held(self, sender: Sender) -> HeldLease | None:
        bucket = await self.jetstream.stream_info(LEASES.name)
        # A leader of the stream that was replaced may not know the newest lease: a write does.
        stored = await read_confirmed(
            self.jetstream,
            self.publisher,
            stream=LEASES.name,
            subject=lease_subject(*sender),
            proof=LEASE_PROOF,
        )
        return None if stored is None else held_lease(stored, bucket.created)
