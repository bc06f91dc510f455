"""A deciding service's side of the conversation: ask, hear the answer, fence predecessors.

Intents go out with their id as message id, so that a repeated publish within the server's
window is stored once. Answers come back on the service's own OUTCOME subjects. What was asked
and not answered stays in the `Outstanding` book of the caller.
"""

import asyncio
from collections.abc import Callable

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.errors import Undecodable
from stromboli.contracts.intents import AnyIntent, Fence, intent_id
from stromboli.contracts.outcomes import AnyOutcome, FenceAnswered, GatewayTurn
from stromboli.contracts.partitions import PARTITIONS
from stromboli.contracts.streams import OUTCOME
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.connection import BusConnection
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.publisher import PubAck, Publisher
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import inject

log = get_logger(__name__)

_RESEND_S = 0.25


async def ask(publisher: Publisher, intent: AnyIntent) -> PubAck:
    """Put an intent on the bus; raises when it is not certain to be there."""
    return await (await start_asking(publisher, intent))


async def start_asking(publisher: Publisher, intent: AnyIntent) -> "asyncio.Future[PubAck]":
    """Send an intent; whether it is on the bus is told by the future."""
    headers: dict[str, str] = {}
    inject(headers)
    return await publisher.send(
        intent.subject(), codec.encode(intent), message_id=intent.id, headers=headers
    )


class OutcomeListener:
    """Hears the outcomes of one service from now on; older ones belong to a former life."""

    def __init__(self, heard: Callable[[AnyOutcome], None]) -> None:
        self._heard = heard
        self._incarnation = ""
        self._sequence = 0
        self.unreadable = 0

    def attach(self, position: LogPosition) -> int:
        if not self._incarnation:
            self._sequence = position.last_sequence
        elif position.incarnation != self._incarnation or position.last_sequence < self._sequence:
            self._sequence = 0
        self._incarnation = position.incarnation
        return self._sequence + 1

    def apply(self, message: LogMessage) -> None:
        if message.sequence <= self._sequence:
            return
        self._sequence = message.sequence
        try:
            outcome = codec.outcomes.decode(message.payload)
        except Undecodable as problem:
            self.unreadable += 1
            log.warning("outcome.unreadable", sequence=message.sequence, problem=str(problem))
            return
        if not isinstance(outcome, GatewayTurn):
            self._heard(outcome)

    def caught_up(self) -> None:
        """Nothing to do: an outcome is news, not state."""


def outcome_reader(
    connection: BusConnection, clock: Clock, heard: Callable[[AnyOutcome], None]
) -> LogReader:
    """A reader of this service's outcomes; run it beside the view's reader."""
    return LogReader(
        connection,
        clock,
        stream=OUTCOME.name,
        filters=[f"vc.outcome.{connection.service}.>"],
        listener=OutcomeListener(heard),
    )


class FenceRound:
    """A new leader's question to every partition, and whether all have answered.

    `answer` takes what the outcome listener hears; `position` is what the view has to reach
    before the first decision.
    """

    def __init__(self, publisher: Publisher, clock: Clock, *, service: str, epoch: Epoch) -> None:
        self._publisher = publisher
        self._clock = clock
        self._service = service
        self.epoch = epoch
        self._answers: dict[int, FenceAnswered] = {}
        self._complete = asyncio.Event()

    def answer(self, outcome: AnyOutcome) -> None:
        if not isinstance(outcome, FenceAnswered) or outcome.epoch != self.epoch:
            return
        self._answers[outcome.partition] = outcome
        if len(self._answers) == PARTITIONS:
            self._complete.set()

    @property
    def position(self) -> dict[str, int]:
        """Per incarnation of STATE, the sequence that the view must have applied."""
        reached: dict[str, int] = {}
        for answered in self._answers.values():
            known = reached.get(answered.incarnation, 0)
            reached[answered.incarnation] = max(known, answered.state_sequence)
        return reached

    async def run(self, *, deadline_s: float = 30.0, shard: str = CLUSTER) -> None:
        """Fence all partitions and wait for their answers; asks again what stays silent."""
        async with asyncio.timeout(deadline_s):
            attempt = 0
            while not self._complete.is_set():
                attempt += 1
                patience_s = deadline_s / 4
                try:
                    await self._send(attempt, shard, not_after=self._now() + deadline_s)
                except BusError as problem:
                    log.warning("fence.unsent", attempt=attempt, problem=str(problem))
                    patience_s = min(patience_s, _RESEND_S)
                try:
                    async with asyncio.timeout(patience_s):
                        await self._complete.wait()
                except TimeoutError:
                    silent = PARTITIONS - len(self._answers)
                    log.warning("fence.unanswered", partitions=silent, attempt=attempt)

    async def _send(self, attempt: int, shard: str, *, not_after: float) -> None:
        """All at once: whoever takes over has somebody waiting."""
        sent: list[asyncio.Future[PubAck]] = []
        for partition in range(PARTITIONS):
            if partition in self._answers:
                continue
            fence = Fence(
                id=intent_id("fence", self._service, shard, str(self.epoch), partition, attempt),
                key=f"fence/{self._service}/{shard}",
                service=self._service,
                shard=shard,
                epoch=self.epoch,
                not_after=not_after,
                sent_at=self._now(),
                in_partition=partition,
            )
            sent.append(await start_asking(self._publisher, fence))
        await asyncio.wait(sent)
        problems = [problem for future in sent if (problem := future.exception()) is not None]
        if problems:
            raise problems[0]

    def _now(self) -> float:
        return self._clock.now().timestamp()
