"""JetStream in memory, as far as our services use it; `test_unruly_bus` holds it to the real one.

Streams with the last message per subject or all of them, message ids, expected sequences, lives of
messages, work queues, push consumers. It knows nothing of connections: `UnrulyBus` hands over what
arrives and takes what has to be sent. Left out: limits in bytes and by age, mirrors, pulling.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from stromboli.testkit.virtual_time import START

__all__ = ["MemoryJetStream", "Message", "Stream", "subject_matches"]

_NANOSECONDS: Final = 1_000_000_000
_API: Final = "$JS.API."
_ACK: Final = "$JS.ACK."
_DEFAULT_ACK_WAIT_S: Final = 30.0

Headers = Mapping[str, str] | None
Send = Callable[[str, str, str, Headers, bytes], None]
"""To whom it goes, its own subject, where to answer, headers, payload."""


@dataclass(slots=True, frozen=True)
class Message:
    """One message as it is stored."""

    subject: str
    sequence: int
    headers: Headers
    payload: bytes
    at_s: float


Observer = Callable[[str, Message], None]
"""Is told the name of the stream, and the message."""


class _ApiError(Exception):
    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.error = {"code": code, "err_code": err_code, "description": description}


@lru_cache(4096)
def subject_matches(pattern: str, subject: str) -> bool:
    """Does NATS deliver this subject to who listens to this pattern?"""
    wanted, tokens = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > index
        if index >= len(tokens) or token not in {"*", tokens[index]}:
            return False
    return len(tokens) == len(wanted)


class MemoryJetStream:
    """All streams of one server."""

    def __init__(self, send: Send, has_interest: Callable[[str], bool]) -> None:
        self._send = send
        self._has_interest = has_interest
        self._loop = asyncio.get_running_loop()
        self.streams: dict[str, Stream] = {}
        self.observers: list[Observer] = []
        """Tests that want to see everything that was ever stored."""

    def takes(self, subject: str) -> bool:
        """Is this for JetStream itself or for one of its streams?"""
        return subject.startswith("$JS.") or self._stream_of(subject) is not None

    def handle(self, subject: str, reply: str, headers: Headers, payload: bytes) -> None:
        if subject.startswith(_API):
            self._answer(reply, self._api(subject.removeprefix(_API), payload))
        elif subject.startswith(_ACK):
            self._acknowledge(subject, payload)
        elif (stream := self._stream_of(subject)) is not None:
            self._answer(reply, stream.publish(subject, dict(headers or {}), payload))

    def interest_changed(self) -> None:
        """Somebody has begun to listen, or has stopped."""
        for stream in self.streams.values():
            for consumer in tuple(stream.consumers.values()):
                consumer.interest_changed()

    def _answer(self, reply: str, answer: Mapping[str, Any]) -> None:
        if reply:
            self._send(reply, reply, "", None, msgspec.json.encode(answer))

    def _stream_of(self, subject: str) -> "Stream | None":
        for stream in self.streams.values():
            if stream.stores(subject):
                return stream
        return None

    def _acknowledge(self, subject: str, payload: bytes) -> None:
        _, _, name, consumer_name, _, sequence, *_ = subject.split(".")
        stream = self.streams.get(name)
        consumer = None if stream is None else stream.consumers.get(consumer_name)
        if consumer is not None:
            consumer.acknowledge(int(sequence), payload)

    def _api(self, call: str, payload: bytes) -> Mapping[str, Any]:
        body: dict[str, Any] = msgspec.json.decode(payload) if payload else {}
        area, verb, name, *rest = call.split(".")
        try:
            match area, verb:
                case "STREAM", "CREATE":
                    return self._create(name, body)
                case "STREAM", "UPDATE":
                    self._existing(name).config.update(body)
                    return self._existing(name).info()
                case "STREAM", "INFO":
                    return self._existing(name).info(body)
                case "STREAM", "MSG":
                    return self._existing(rest[0]).fetch(body)
                case "CONSUMER", "CREATE":
                    return self._existing(name).create_consumer(body["config"])
                case "CONSUMER", "DELETE":
                    return self._existing(name).delete_consumer(rest[0])
                case "CONSUMER", "NAMES":
                    names = list(self._existing(name).consumers)
                    return {"total": len(names), "offset": 0, "limit": 1024, "consumers": names}
                case _:
                    raise NotImplementedError(f"$JS.API.{call}")
        except _ApiError as problem:
            return {"error": problem.error}

    def _existing(self, name: str) -> "Stream":
        stream = self.streams.get(name)
        if stream is None:
            raise _ApiError(404, 10059, "stream not found")
        return stream

    def _create(self, name: str, config: dict[str, Any]) -> Mapping[str, Any]:
        found = self.streams.get(name)
        if found is None:
            created = (START + timedelta(seconds=self._loop.time())).strftime(
                "%Y-%m-%dT%H:%M:%S.%f000Z"
            )
            found = Stream(config, created, self._send, self._has_interest, self.observers)
            self.streams[name] = found
        elif found.config != config:
            raise _ApiError(400, 10058, "stream name already in use with a different configuration")
        return found.info()


class Stream:
    """One stream and its consumers."""

    def __init__(
        self,
        config: dict[str, Any],
        created: str,
        send: Send,
        has_interest: Callable[[str], bool],
        observers: Iterable["Observer"],
    ) -> None:
        self.config = config
        self.created = created
        self.send = send
        self.has_interest = has_interest
        self.loop = asyncio.get_running_loop()
        self.messages: dict[int, Message] = {}
        self.last_sequence = 0
        self.consumers: dict[str, _Consumer] = {}
        self._observers = observers
        self._of_subject: dict[str, list[int]] = {}
        self._ids: dict[str, tuple[int, float]] = {}

    @property
    def is_work_queue(self) -> bool:
        return self.config.get("retention") == "workqueue"

    def stores(self, subject: str) -> bool:
        return any(subject_matches(pattern, subject) for pattern in self.config["subjects"])

    def last_of(self, subject: str) -> Message | None:
        sequences = self._of_subject.get(subject)
        return self.messages[sequences[-1]] if sequences else None

    def last_of_each(self, wanted: Callable[[str], bool]) -> list[int]:
        """The sequences of the last messages of these subjects, in order."""
        return sorted(of[-1] for subject, of in self._of_subject.items() if wanted(subject))

    def info(self, asked: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        sequences = list(self.messages)
        state: dict[str, Any] = {
            "messages": len(sequences),
            "first_seq": sequences[0] if sequences else self.last_sequence + 1,
            "last_seq": self.last_sequence,
            "num_subjects": len(self._of_subject),
            "consumer_count": len(self.consumers),
        }
        answer: dict[str, Any] = {"config": self.config, "created": self.created, "state": state}
        if asked and (wanted := asked.get("subjects_filter")):
            found = {
                subject: len(sequences)
                for subject, sequences in sorted(self._of_subject.items())
                if subject_matches(wanted, subject)
            }
            offset = asked.get("offset", 0)
            state["subjects"] = dict(list(found.items())[offset:])
            answer["total"] = len(found)
        return answer

    def fetch(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if subject := asked.get("last_by_subj"):
            found = self.last_of(subject)
        else:
            found = self.messages.get(asked.get("seq", 0))
        if found is None:
            raise _ApiError(404, 10037, "no message found")
        message: dict[str, Any] = {
            "subject": found.subject,
            "seq": found.sequence,
            "data": found.payload,
        }
        if found.headers:
            lines = "".join(f"{key}: {value}\r\n" for key, value in found.headers.items())
            message["hdrs"] = f"NATS/1.0\r\n{lines}\r\n".encode()
        return {"message": message}

    # Storing.

    def publish(self, subject: str, headers: dict[str, str], payload: bytes) -> Mapping[str, Any]:
        """Store it or say why not; the answer as a publisher gets it."""
        name = self.config["name"]
        try:
            self._check(subject, headers)
        except _ApiError as refusal:
            return {"error": refusal.error, "stream": name, "seq": 0}
        if (known := self._known(headers.get("Nats-Msg-Id", ""))) is not None:
            return {"stream": name, "seq": known, "duplicate": True}
        message = self.store(subject, headers or None, payload)
        return {"stream": name, "seq": message.sequence}

    def _known(self, message_id: str) -> int | None:
        if not message_id or (found := self._ids.get(message_id)) is None:
            return None
        sequence, at_s = found
        window_s = self.config.get("duplicate_window", 120 * _NANOSECONDS) / _NANOSECONDS
        return sequence if self.loop.time() - at_s < window_s else None

    def _check(self, subject: str, headers: Mapping[str, str]) -> None:
        expected = headers.get("Nats-Expected-Last-Subject-Sequence")
        if expected is not None:
            about = headers.get("Nats-Expected-Last-Subject-Sequence-Subject", subject)
            last = self.last_of(about)
            found = 0 if last is None else last.sequence
            if found != int(expected):
                raise _ApiError(400, 10071, f"wrong last sequence: {found}")
        if "Nats-TTL" in headers and not self.config.get("allow_msg_ttl"):
            raise _ApiError(400, 10166, "per-message TTL is disabled")

    def store(self, subject: str, headers: Headers, payload: bytes) -> Message:
        self.last_sequence += 1
        message = Message(subject, self.last_sequence, headers, payload, self.loop.time())
        if headers and (message_id := headers.get("Nats-Msg-Id")):
            self._ids[message_id] = (message.sequence, message.at_s)
        of_subject = self._of_subject.setdefault(subject, [])
        of_subject.append(message.sequence)
        self.messages[message.sequence] = message
        limit = self.config.get("max_msgs_per_subject", -1)
        while 0 < limit < len(of_subject):
            self.remove(of_subject[0])
        if headers and (life := headers.get("Nats-TTL")):
            self.loop.call_later(float(life.removesuffix("s")), self._expire, message)
        for observer in self._observers:
            observer(self.config["name"], message)
        for consumer in tuple(self.consumers.values()):
            consumer.stored(message)
        return message

    def _expire(self, message: Message) -> None:
        if self.messages.get(message.sequence) is not message:
            return
        was_last = self._of_subject[message.subject][-1] == message.sequence
        self.remove(message.sequence)
        marker_life = self.config.get("subject_delete_marker_ttl", 0)
        is_marker = bool(message.headers and "Nats-Marker-Reason" in message.headers)
        if was_last and marker_life and not is_marker:
            headers = {
                "Nats-Marker-Reason": "MaxAge",
                "Nats-Rollup": "sub",
                "Nats-TTL": f"{marker_life // _NANOSECONDS}s",
            }
            self.store(message.subject, headers, b"")

    def remove(self, sequence: int) -> None:
        message = self.messages.pop(sequence, None)
        if message is None:
            return
        of_subject = self._of_subject[message.subject]
        of_subject.remove(sequence)
        if not of_subject:
            del self._of_subject[message.subject]
        for consumer in self.consumers.values():
            consumer.removed(message)

    # Consumers.

    def create_consumer(self, config: dict[str, Any]) -> Mapping[str, Any]:
        name = config["name"]
        consumer = _Consumer(self, config)
        if self.is_work_queue:
            for other in self.consumers.values():
                if other.config["name"] != name and other.overlaps(consumer):
                    raise _ApiError(400, 10100, "filtered consumer not unique on workqueue stream")
        self.drop_consumer(name)
        self.consumers[name] = consumer
        pending = consumer.pending
        # The answer leaves before the first message does.
        self.loop.call_soon(consumer.begin)
        return {
            "stream_name": self.config["name"],
            "name": name,
            "config": config,
            "num_pending": pending,
        }

    def delete_consumer(self, name: str) -> Mapping[str, Any]:
        if name not in self.consumers:
            raise _ApiError(404, 10014, "consumer not found")
        self.drop_consumer(name)
        return {"success": True}

    def drop_consumer(self, name: str) -> None:
        if (consumer := self.consumers.pop(name, None)) is not None:
            consumer.end()


@dataclass(slots=True)
class _Unacknowledged:
    deliveries: int
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class _Consumer:
    """A push consumer: sends what it has not sent, as long as somebody listens."""

    stream: Stream
    config: dict[str, Any]
    filters: tuple[str, ...] = field(init=False)
    pending: int = field(init=False)
    _next: int = field(init=False)
    _first: list[int] = field(default_factory=list[int])
    """Sequences before `_next` that are still to be sent."""
    _delivered: int = 0
    _sent_at: float = 0.0
    _unacknowledged: dict[int, _Unacknowledged] = field(default_factory=dict[int, _Unacknowledged])
    _again: list[int] = field(default_factory=list[int])
    _begun: bool = False
    _heartbeat: asyncio.TimerHandle | None = None
    _abandoned: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        config = self.config
        single = config.get("filter_subject")
        self.filters = (single,) if single else tuple(config.get("filter_subjects") or (">",))
        match config.get("deliver_policy", "all"):
            case "by_start_sequence":
                self._next = max(1, config["opt_start_seq"])
            case "new":
                self._next = self.stream.last_sequence + 1
            case "all":
                self._next = 1
            case "last_per_subject":
                self._next = self.stream.last_sequence + 1
                self._first = self.stream.last_of_each(self._wants)
            case other:
                raise NotImplementedError(other)
        self.pending = len(self._first) + sum(1 for _ in self._undelivered())

    def _undelivered(self) -> Iterator[Message]:
        for sequence, message in self.stream.messages.items():
            if sequence >= self._next and self._wants(message.subject):
                yield message

    def _wants(self, subject: str) -> bool:
        return any(subject_matches(pattern, subject) for pattern in self.filters)

    def overlaps(self, other: "_Consumer") -> bool:
        return any(
            subject_matches(mine, theirs) or subject_matches(theirs, mine)
            for mine in self.filters
            for theirs in other.filters
        )

    @property
    def _is_explicit(self) -> bool:
        return self.config.get("ack_policy", "none") == "explicit"

    @property
    def _is_heard(self) -> bool:
        return self.stream.has_interest(self.config["deliver_subject"])

    def begin(self) -> None:
        if self.stream.consumers.get(self.config["name"]) is not self:
            return
        self._begun = True
        if interval := self.config.get("idle_heartbeat", 0):
            self._heartbeat = self.stream.loop.call_later(
                interval / _NANOSECONDS, self._beat, interval / _NANOSECONDS
            )
        self.interest_changed()

    def end(self) -> None:
        self._begun = False
        timers = [self._heartbeat, self._abandoned]
        timers += [entry.timer for entry in self._unacknowledged.values()]
        for timer in timers:
            if timer is not None:
                timer.cancel()

    def interest_changed(self) -> None:
        if not self._begun:
            return
        if self._is_heard:
            if self._abandoned is not None:
                self._abandoned.cancel()
                self._abandoned = None
            self._push()
        elif self._abandoned is None and (life := self.config.get("inactive_threshold", 0)):
            self._abandoned = self.stream.loop.call_later(
                life / _NANOSECONDS, self.stream.drop_consumer, self.config["name"]
            )

    def stored(self, message: Message) -> None:
        if message.sequence >= self._next and self._wants(message.subject):
            self.pending += 1
            self._push()

    def removed(self, message: Message) -> None:
        if message.sequence >= self._next:
            if self._wants(message.subject):
                self.pending -= 1
        elif message.sequence in self._first:
            self._first.remove(message.sequence)
            self.pending -= 1
        elif (entry := self._unacknowledged.pop(message.sequence, None)) is not None:
            _stop(entry)

    def acknowledge(self, sequence: int, payload: bytes) -> None:
        entry = self._unacknowledged.get(sequence)
        if entry is None:
            return
        if payload == b"+WPI":
            self._await_ack(sequence, entry)
            return
        del self._unacknowledged[sequence]
        _stop(entry)
        if self.stream.is_work_queue:
            self.stream.remove(sequence)
        self._push()

    def _push(self) -> None:
        if not self._begun or not self._is_heard:
            return
        for message in self._due():
            self._deliver(message)

    def _due(self) -> Iterable[Message]:
        again, self._again = self._again, []
        for sequence in again:
            if sequence in self._unacknowledged:
                yield self.stream.messages[sequence]
        limit = self.config.get("max_ack_pending", 0) if self._is_explicit else 0
        while self.pending and not 0 < limit <= len(self._unacknowledged):
            self.pending -= 1
            yield self._take_next()

    def _take_next(self) -> Message:
        if self._first:
            return self.stream.messages[self._first.pop(0)]
        message = self._first_from(self._next)
        self._next = message.sequence + 1
        return message

    def _first_from(self, sequence: int) -> Message:
        while True:
            message = self.stream.messages.get(sequence)
            if message is not None and self._wants(message.subject):
                return message
            sequence += 1

    def _deliver(self, message: Message) -> None:
        self._delivered += 1
        deliveries = 1
        if self._is_explicit:
            entry = self._unacknowledged.setdefault(message.sequence, _Unacknowledged(0))
            entry.deliveries += 1
            deliveries = entry.deliveries
            self._await_ack(message.sequence, entry)
        self._sent_at = self.stream.loop.time()
        place = (
            f"{deliveries}.{message.sequence}.{self._delivered}"
            f".{int(message.at_s * _NANOSECONDS)}.{self.pending}"
        )
        reply = f"{_ACK}{self.stream.config['name']}.{self.config['name']}.{place}"
        self.stream.send(
            self.config["deliver_subject"],
            message.subject,
            reply,
            message.headers,
            message.payload,
        )

    def _await_ack(self, sequence: int, entry: _Unacknowledged) -> None:
        _stop(entry)
        wait = self.config.get("ack_wait", 0) / _NANOSECONDS or _DEFAULT_ACK_WAIT_S
        entry.timer = self.stream.loop.call_later(wait, self._overdue, sequence)

    def _overdue(self, sequence: int) -> None:
        self._again.append(sequence)
        self._push()

    def _beat(self, interval_s: float) -> None:
        loop = self.stream.loop
        self._heartbeat = loop.call_later(interval_s, self._beat, interval_s)
        if self._is_heard and loop.time() - self._sent_at >= interval_s:
            headers = {
                "Status": "100",
                "Description": "Idle Heartbeat",
                "Nats-Last-Consumer": str(self._delivered),
                "Nats-Last-Stream": str(self._next - 1),
            }
            inbox = self.config["deliver_subject"]
            self.stream.send(inbox, inbox, "", headers, b"")


def _stop(entry: _Unacknowledged) -> None:
    if entry.timer is not None:
        entry.timer.cancel()
