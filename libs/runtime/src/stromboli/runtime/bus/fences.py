"""A new leader's fence: put on INTENT, noted in the lease, and answered by the gateway.

The order of INTENT decides. What an earlier leader of this service and shard stored before the
fence has ended when the fence is answered; what it stores behind it is refused. The lease says
where the fence stands, so a gateway that starts later knows it as well. The answer is waited
for as long as the lease is held: without it nothing is known about what was asked before.
"""

import asyncio

from stromboli.contracts import codec
from stromboli.contracts.intents import CONTRACT, Fence, intent_id
from stromboli.contracts.outcomes import AnyOutcome, FenceAnswered, Reason, Refused
from stromboli.contracts.streams import INTENT
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.leases import Lease, LeaseKeeper
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.clock import Clock

__all__ = ["FenceRefused", "Fencing"]

_LOOK_S = 5.0
"""Between two looks whether the fence still waits on INTENT."""


class FenceRefused(BusError):
    """The gateway does not take us for the leader, or does not speak with this release."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"the gateway refused the fence: {message} ({reason})")
        self.reason = reason


class Fencing:
    """The fence of one turn. `hear` is given every outcome that counts."""

    def __init__(
        self,
        jetstream: JetStream,
        publisher: Publisher,
        clock: Clock,
        *,
        keeper: LeaseKeeper,
        lease: Lease,
        service: str,
        shard: str,
    ) -> None:
        self._jetstream = jetstream
        self._publisher = publisher
        self._keeper = keeper
        self._lease = lease
        self._fence = Fence(
            id=intent_id("fence", service, shard, str(lease.epoch)),
            key=f"fence/{service}/{shard}",
            service=service,
            shard=shard,
            epoch=lease.epoch,
            sent_at=clock.now().timestamp(),
            contract=CONTRACT,
        )
        self._answer: asyncio.Future[FenceAnswered] = asyncio.get_running_loop().create_future()

    def hear(self, outcome: AnyOutcome) -> None:
        if outcome.intent_id != self._fence.id or self._answer.done():
            return
        match outcome:
            case FenceAnswered():
                self._answer.set_result(outcome)
            case Refused():
                self._answer.set_exception(FenceRefused(outcome.reason, outcome.message))
            case _:
                pass

    async def run(self) -> FenceAnswered:
        """Raises FenceRefused, or another BusError when another turn must try again."""
        return await self._lease.throughout(self._run())

    async def _run(self) -> FenceAnswered:
        log_created = (await self._jetstream.stream_info(INTENT.name)).created
        fence = self._fence
        ack = await self._publisher.publish_until_acked(
            fence.subject(), codec.encode(fence), message_id=fence.id
        )
        await self._keeper.note_fence(self._lease, log_created=log_created, sequence=ack.seq)
        was_gone = False
        while not self._answer.done():
            await asyncio.wait((self._answer,), timeout=_LOOK_S)
            is_gone = not self._answer.done() and await self._is_gone(log_created, ack.seq)
            if is_gone and was_gone:
                raise BusError("the fence is gone from INTENT, and nobody has answered it")
            was_gone = is_gone
        return self._answer.result()

    async def _is_gone(self, log_created: str, sequence: int) -> bool:
        """Is the fence not waiting any more? Its answer may still be on its way then."""
        try:
            info = await self._jetstream.stream_info(INTENT.name)
        except BusError:
            return False  # not known, which is no news
        return info.created != log_created or info.state.first_seq > sequence
