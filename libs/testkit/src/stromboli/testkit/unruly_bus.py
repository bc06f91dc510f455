"""A bus in memory that loses, delays, doubles and reorders, under the real `BusConnection`.

It stands where nats-py's client stands, so everything of ours above that is the real thing:
publisher, readers, leases, intake. What is delivered on one subscription stays in order, as on a
socket; different ones overtake each other. Each connection belongs to a `Process` and can be cut
off, made to hang, and ended as by kill -9.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, cast

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from stromboli.runtime.bus.connection import BusConnection
from stromboli.testkit.fault_plan import FaultPlan
from stromboli.testkit.memory_jetstream import Headers, MemoryJetStream
from stromboli.testkit.virtual_time import Process

__all__ = ["Link", "UnrulyBus"]

_TICK_S: Final = 1e-6
"""Timers of one moment fire in any order; what must stay in order is so far apart."""
_MAX_PAYLOAD: Final = 1024 * 1024
_NOBODY: Final = {"Status": "503"}
_BIND: Final = ".bind.pod"
_PINGS_UNANSWERED_S: Final = 10.0


class UnrulyBus:
    """The server, and the network between it and its clients.

    Of wildcards it knows what our clients use: one star at the end.
    """

    def __init__(self, faults: FaultPlan) -> None:
        self.faults = faults
        self.links: list[Link] = []
        self.context = Context()
        """The server's own: what happens there is not frozen with a client."""
        self.is_unanswered: Callable[[str], bool] = lambda _subject: False
        """Messages of these subjects are stored, and their senders never hear of it."""
        self.is_undelivered: Callable[[str], bool] = lambda _subject: False
        """Messages of these subjects are lost on the way to who listens."""
        self.late_s: Callable[[str], float] = lambda _subject: 0.0
        """How long messages of these subjects stay on the way to the server."""
        self._loop = asyncio.get_running_loop()
        self._listening: dict[str, list[_Subscription]] = {}
        self._inboxes = 0
        self.jetstream = MemoryJetStream(self.send, self.has_interest)

    async def connect(self, service: str, process: Process) -> tuple["Link", BusConnection]:
        """A connection of this service, in this process."""
        link = Link(self, process)
        self.links.append(link)
        connection = BusConnection(cast("Client", link.client), service)
        link.connection = connection
        await connection._listen_for_answers()  # noqa: SLF001 (what `connect` does)
        return link, connection

    def next_inbox(self) -> int:
        self._inboxes += 1
        return self._inboxes

    # At the server.

    def arrive(self, subject: str, reply: str, headers: Headers, payload: bytes) -> None:
        """A client's message is here."""
        is_bind = subject.endswith(_BIND)
        if reply and (
            self.is_unanswered(subject)
            or (is_bind and self.faults.happens(self.faults.lost_bind_ack))
        ):
            reply = ""
        if self.jetstream.takes(subject):
            self.jetstream.handle(subject, reply, headers, payload)
        elif not self._send(subject, subject, reply, headers, payload) and reply:
            self.send(reply, reply, "", _NOBODY, b"")

    def send(self, to: str, subject: str, reply: str, headers: Headers, payload: bytes) -> None:
        self._send(to, subject, reply, headers, payload)

    def _send(self, to: str, subject: str, reply: str, headers: Headers, payload: bytes) -> bool:
        listeners = self._listeners(to)
        for subscription in listeners:
            message = Msg(
                cast("Client", subscription.link.client),
                subject,
                reply,
                payload,
                dict(headers) if headers else None,
            )
            subscription.link.send(subscription, message)
        return bool(listeners)

    def _listeners(self, subject: str) -> list["_Subscription"]:
        found = self._listening.get(subject)
        if not found:
            found = self._listening.get(f"{subject.rpartition('.')[0]}.*", ())
        return [one for one in found if one.link.attached]

    def has_interest(self, subject: str) -> bool:
        return bool(self._listeners(subject))

    def listen(self, subscription: "_Subscription") -> None:
        if subscription.ended:
            return
        self._listening.setdefault(subscription.subject, []).append(subscription)
        self.jetstream.interest_changed()

    def forget(self, subscription: "_Subscription") -> None:
        subscription.ended = True
        of_subject = self._listening.get(subscription.subject, [])
        if subscription in of_subject:
            of_subject.remove(subscription)
        self.interest_changed()

    def forget_all(self, link: "Link") -> None:
        for subject, found in list(self._listening.items()):
            self._listening[subject] = [one for one in found if one.link is not link]

    def interest_changed(self) -> None:
        self._loop.call_soon(self.jetstream.interest_changed, context=self.context)


@dataclass(slots=True, eq=False)
class _Subscription:
    """One SUB of a client; its messages are handled one after the other, as in nats-py."""

    link: "Link"
    subject: str
    callback: Callable[[Msg], Awaitable[None]]
    last_at: float = 0.0
    waiting: deque[Msg] = field(default_factory=deque[Msg])
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    pump: "asyncio.Task[None] | None" = None
    ended: bool = False

    def take(self, message: Msg) -> None:
        self.waiting.append(message)
        self.wake.set()

    async def run(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self.waiting:
                await self.callback(self.waiting.popleft())

    async def unsubscribe(self) -> None:
        self.link.bus.forget(self)
        if self.pump is not None and self.pump is not asyncio.current_task():
            self.pump.cancel()


class Link:
    """One client's socket, as both ends know it."""

    def __init__(self, bus: UnrulyBus, process: Process) -> None:
        self.bus = bus
        self.process = process
        self.client = _UnrulyClient(self)
        self.connection: BusConnection | None = None
        self.connected = True
        """As the client knows."""
        self.attached = True
        """As the server knows."""
        self.dark = False
        """Nothing passes, and nobody has noticed."""
        self.severed = False
        self.late_s: Callable[[str], float] = lambda _subject: 0.0
        """How far what is read from streams lags behind, by subject."""
        self._socket = 0
        self._last_up = 0.0
        self._loop = asyncio.get_running_loop()
        self._context = process.context()
        self._pumps: set[asyncio.Task[None]] = set()

    # What passes.

    def publish(self, subject: str, reply: str, headers: Headers, payload: bytes) -> None:
        faults = self.bus.faults
        if self.dark or faults.happens(faults.lost_request):
            return
        late_s = faults.delay_s(faults.late_request) + self.bus.late_s(subject)
        at = self._loop.time() + late_s
        if not subject.startswith("$JS.ACK."):
            # What is late is late alone: the socket was broken, or the server's leader moved.
            at = max(at, self._last_up + _TICK_S)
            if late_s < _TICK_S * 1000:
                self._last_up = at
        self._loop.call_at(
            at, self.bus.arrive, subject, reply, headers, payload, context=self.bus.context
        )

    def send(self, subscription: _Subscription, message: Msg) -> None:
        if self.dark:
            return
        faults = self.bus.faults
        if message.reply or (message.headers or {}).get("Status") == "100":
            self._deliver(subscription, message)
            return
        if faults.happens(faults.lost_answer):
            return
        for _ in range(2 if faults.happens(faults.doubled_answer) else 1):
            # Answers overtake each other.
            at = self._loop.time() + faults.delay_s(faults.late_answer)
            self._receive_at(at, subscription, message)

    def _deliver(self, subscription: _Subscription, message: Msg) -> None:
        faults = self.bus.faults
        if faults.happens(faults.lost_delivery) or self.bus.is_undelivered(message.subject):
            return
        at = self._loop.time() + faults.delay_s(faults.late_delivery)
        at += self.late_s(message.subject)
        subscription.last_at = max(at, subscription.last_at + _TICK_S)
        self._receive_at(subscription.last_at, subscription, message)

    def _receive_at(self, at: float, subscription: _Subscription, message: Msg) -> None:
        self._loop.call_at(
            at, self._receive, self._socket, subscription, message, context=self._context
        )

    def _receive(self, socket: int, subscription: _Subscription, message: Msg) -> None:
        if socket == self._socket and self.connected and not self.dark:
            subscription.take(message)

    def subscribe(self, subject: str, callback: Callable[[Msg], Awaitable[None]]) -> _Subscription:
        subscription = _Subscription(self, subject, callback)
        task = self._loop.create_task(
            subscription.run(), name=f"listen {subject}", context=self._context
        )
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)
        subscription.pump = task
        at = self._last_up = max(self._loop.time(), self._last_up) + _TICK_S
        self._loop.call_at(at, self.bus.listen, subscription, context=self.bus.context)
        return subscription

    # What breaks.

    def cut(self, *, reconnects_after_s: float = 0.2) -> None:
        """The socket breaks, and both ends notice."""
        if self.severed:
            return
        self.dark = False
        self._socket += 1
        self.attached = self.connected = False
        self.bus.interest_changed()
        self._tell(lambda connection: connection._on_disconnect())  # noqa: SLF001 (as nats-py)
        self._loop.call_later(
            reconnects_after_s, self._reconnect, self._socket, context=self.bus.context
        )

    def _reconnect(self, socket: int) -> None:
        if self.severed or socket != self._socket:
            return
        self.attached = self.connected = True
        self.bus.interest_changed()
        self._tell(lambda connection: connection._on_reconnect())  # noqa: SLF001 (as nats-py)

    def hang(self, seconds: float = _PINGS_UNANSWERED_S) -> None:
        """Nothing passes any more, and both ends notice only after a while."""
        self.dark = True
        socket = self._socket
        self._loop.call_later(
            seconds,
            lambda: self.cut() if socket == self._socket else None,
            context=self.bus.context,
        )

    def sever(self) -> None:
        """The process is no more: nothing of it gets out, and nothing comes back."""
        self.severed = True
        self.connected = self.attached = False
        self._socket += 1
        if self.connection is not None:
            self.connection.is_leaving = True
        self.bus.forget_all(self)
        self.bus.interest_changed()
        for pump in self._pumps:
            pump.cancel()

    def _tell(self, news: Callable[[BusConnection], Coroutine[Any, Any, None]]) -> None:
        if self.connection is not None:
            task = self._loop.create_task(news(self.connection), context=self._context)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)


class _Names:
    """nats-py's generator of unique names."""

    def __init__(self, bus: UnrulyBus) -> None:
        self._bus = bus

    def next(self) -> bytes:
        return f"n{self._bus.next_inbox()}".encode()


class _UnrulyClient:
    """What `BusConnection` uses of nats-py's client."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._nuid = _Names(link.bus)
        self.max_payload = _MAX_PAYLOAD

    @property
    def is_connected(self) -> bool:
        return self._link.connected

    async def publish(
        self, subject: str, payload: bytes, *, reply: str = "", headers: Headers = None
    ) -> None:
        if self._link.severed:
            raise nats.errors.ConnectionClosedError
        if not self._link.connected:
            raise nats.errors.OutboundBufferLimitError
        self._link.publish(subject, reply, headers, payload)

    async def subscribe(
        self, subject: str, *, cb: Callable[[Msg], Awaitable[None]], **_: object
    ) -> _Subscription:
        if self._link.severed:
            raise nats.errors.ConnectionClosedError
        return self._link.subscribe(subject, cb)
