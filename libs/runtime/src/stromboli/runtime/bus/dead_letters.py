"""Put aside what could not be read or applied, with the reason, once, and count it."""

import msgspec

from stromboli.contracts import codec
from stromboli.contracts.records import DEAD_PAYLOAD_LIMIT, DeadLetter
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter

log = get_logger(__name__)

_dead = counter("stromboli.dead.letters", "Messages put aside", labels=["stream"])


class Unreadable(msgspec.Struct, frozen=True):
    """A message that somebody could not use."""

    stream: str
    incarnation: str
    subject: str
    sequence: int
    payload: bytes


class DeadLetterOffice:
    """Publishes to DEAD. Several readers of one bad message make one dead letter."""

    def __init__(self, publisher: Publisher, clock: Clock, service: str) -> None:
        self._publisher = publisher
        self._clock = clock
        self._service = service

    async def put_aside(self, message: Unreadable, reason: str) -> None:
        """Store the letter; when even that fails, the log keeps what there is to know."""
        _dead.add(1, stream=message.stream)
        log.error(
            "message.dead",
            stream=message.stream,
            subject=message.subject,
            sequence=message.sequence,
            reason=reason,
        )
        letter = DeadLetter(
            stream=message.stream,
            arrived_on=message.subject,
            sequence=message.sequence,
            service=self._service,
            at=self._clock.now().timestamp(),
            reason=reason,
            # On a bus of small messages, a letter about one that was too large must fit too.
            payload=message.payload[: min(DEAD_PAYLOAD_LIMIT, self._publisher.max_payload // 2)],
            size=len(message.payload),
        )
        message_id = f"dead-{message.stream}-{message.incarnation}-{message.sequence}"
        try:
            await self._publisher.publish(
                letter.subject(), codec.encode(letter), message_id=message_id
            )
        except BusError as problem:
            log.error("message.dead_unstored", subject=message.subject, problem=str(problem))  # noqa: TRY400 (the reason is in the fields)
