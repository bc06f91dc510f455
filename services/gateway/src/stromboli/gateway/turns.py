"""Announce on OUTCOME that from here on our answers count, and nobody else's.

Each service that asks reads its own outcomes only, so each is told. A gateway that was frozen and
announces itself late is refused, because it expects the announcement before ours to be the last.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from stromboli.contracts import codec
from stromboli.contracts.outcomes import GatewayTurn
from stromboli.contracts.permissions import DECIDING
from stromboli.contracts.streams import OUTCOME
from stromboli.gateway.answered import AnsweredLog
from stromboli.gateway.deadlines import NoLongerLeading
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.leases import Lease
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.logs import get_logger

log = get_logger(__name__)

_RETRY_S = 0.1
_ECHO_S = 0.005
_AGAIN_S = OUTCOME.max_age_s / 6


@dataclass(slots=True)
class Turn:
    """The turn of a gateway, from one acquisition of its lease to its loss."""

    lease: Lease
    publisher: Publisher
    jetstream: JetStream
    answered: AnsweredLog

    @property
    def is_ours(self) -> bool:
        """False once somebody else has announced a turn after ours."""
        turns = {self.answered.turn_of(service) for service in DECIDING}
        return turns <= {self.lease.epoch, None}

    async def begin(self) -> None:
        """Return when our own reader of OUTCOME has come by the announcement.

        Then every answer that counted before is known here.
        """
        for service in DECIDING:
            await self._announce(service)
        while any(self.answered.turn_of(service) != self.lease.epoch for service in DECIDING):
            if not self.lease.held:
                raise NoLongerLeading
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ECHO_S):
                    await self.lease.lost.wait()

    async def keep(self) -> None:
        """OUTCOME forgets after a while; who joins later has to find our turn there."""
        while True:
            await asyncio.sleep(_AGAIN_S)
            for service in DECIDING:
                await self._announce(service)

    async def _announce(self, service: str) -> None:
        turn = GatewayTurn(service=service, gateway=self.lease.epoch)
        while self.lease.held:
            try:
                last = await self.jetstream.last_message(OUTCOME.name, turn.subject())
                expected = 0 if last is None else last.sequence
                await self.publisher.publish(
                    turn.subject(), codec.encode(turn), expect_last=expected
                )
            except BusError as problem:
                log.debug("turn.unannounced", problem=str(problem))
                await asyncio.sleep(_RETRY_S)
            else:
                return
        raise NoLongerLeading
