"""What can go wrong on the bus.

BusError
├── BusDisconnected     not sent: there is no connection right now
├── BusClosed           the server has ended the connection for good
├── Unanswered          asked, but no answer came
├── NotPermitted        the server does not let this service speak there
├── PublishRefused      the server said no: the message is not stored
│   ├── WrongLastSequence   somebody else wrote this subject first
│   └── StreamFull          it would be larger than its limit
├── PublishUncertain    sent, but no answer: it may or may not be stored
├── LeaseLost           somebody else leads, or may lead by now
├── ViewTooOld          the view does not come to what was done before
├── JetStreamError      an API call was answered with an error
└── StreamMismatch      a stream exists with other settings than ours
"""

from stromboli.runtime.errors import StromboliError


class BusError(StromboliError):
    """Something about NATS."""


class BusDisconnected(BusError):
    """There is no connection, so nothing was sent and nothing will arrive late."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"not connected to NATS: nothing was sent to {subject}")
        self.subject = subject


class BusClosed(BusError):
    """The server refused to go on with us; only a new process can try again."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"NATS has closed the connection for good: {reason}")
        self.reason = reason


class Unanswered(BusError):
    """A request got no answer; whether it was heard is unknown."""

    def __init__(self, subject: str, detail: str) -> None:
        super().__init__(f"no answer from NATS to {subject}: {detail}")
        self.subject = subject
        self.detail = detail


class NotPermitted(BusError):
    """The server's permissions forbid it; see `stromboli.contracts.permissions`."""

    def __init__(self, subject: str, service: str) -> None:
        super().__init__(f"NATS does not let {service} publish to {subject}")
        self.subject = subject
        self.service = service


class PublishRefused(BusError):
    """The server refused to store the message."""

    def __init__(self, subject: str, code: int, description: str) -> None:
        super().__init__(f"NATS refused a message for {subject}: {description} ({code})")
        self.subject = subject
        self.code = code
        self.description = description


class WrongLastSequence(PublishRefused):
    """The subject's last message is not the one the writer believed it to be."""


class StreamFull(PublishRefused):
    """The stream has no room for the message; what stood under its subject still stands."""


class PublishUncertain(BusError):
    """No acknowledgement came: the message may or may not be stored."""

    def __init__(self, subject: str, detail: str) -> None:
        super().__init__(f"no acknowledgement for {subject}: {detail}")
        self.subject = subject


class LeaseLost(BusError):
    """What was begun in the name of this lease must not go on."""

    def __init__(self, epoch: str) -> None:
        super().__init__(f"the lease of epoch {epoch} was lost")
        self.epoch = epoch


class ViewTooOld(BusError):
    """A new leader can't decide: its view does not show what was done before."""

    def __init__(self, waits_for: str) -> None:
        super().__init__(f"it {waits_for}, and that takes too long: asking the gateway again")


class JetStreamError(BusError):
    """A JetStream API call failed."""

    def __init__(self, call: str, code: int, error_code: int, description: str) -> None:
        super().__init__(f"{call}: {description} (code {code}, error {error_code})")
        self.call = call
        self.code = code
        self.error_code = error_code
        self.description = description

    @property
    def not_found(self) -> bool:
        return self.code == 404


class StreamMismatch(BusError):
    """A stream has settings that can't be changed in place; a person must decide."""

    def __init__(self, stream: str, differences: dict[str, tuple[object, object]]) -> None:
        listed = ", ".join(
            f"{key} is {found!r}, expected {wanted!r}"
            for key, (found, wanted) in sorted(differences.items())
        )
        super().__init__(
            f"stream {stream} differs from the contract and can't be changed in place: {listed}. "
            "It is never deleted by itself: remove it by hand if its data may go"
        )
        self.stream = stream
        self.differences = differences
