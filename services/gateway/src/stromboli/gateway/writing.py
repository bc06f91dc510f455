"""Put facts on STATE: one writer per subject at a time, each expecting what stands there.

JetStream refuses a write whose expected sequence is not the subject's last one. That makes a
deposed leader harmless, and it makes order per subject our duty: the next fact of a subject
waits until its predecessor is acknowledged. While it waits, a newer state of the same object
takes its place; an end never does. When somebody else was faster (a leader that was deposed a
moment ago, say), what is newer stays, and the kind is compared as a whole.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stromboli.contracts import codec
from stromboli.contracts.errors import MessageTooLarge
from stromboli.contracts.facts import TOMBSTONE_LIFE_S, Fact, ObjectGone, ObjectSeen
from stromboli.contracts.streams import STATE
from stromboli.gateway.own_sequences import OwnSequences
from stromboli.gateway.positions import Ticket
from stromboli.gateway.published import Published, sound_fact
from stromboli.gateway.room import Room
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.errors import BusError, PublishRefused, StreamFull, WrongLastSequence
from stromboli.runtime.bus.jetstream import JetStream, Stored
from stromboli.runtime.bus.journal import Journal
from stromboli.runtime.bus.publisher import PubAck, Publisher
from stromboli.runtime.crashpoints import declare, reach
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter

log = get_logger(__name__)

SENT = declare("gateway.fact.sent", "a fact is on the wire, its acknowledgement is not here yet")
STORED = declare("gateway.fact.stored", "a fact was acknowledged, nothing was remembered yet")

_facts = counter("stromboli.facts.published", "Facts put on STATE", labels=["kind"])
_repairs = counter("stromboli.facts.contested", "Facts whose subject was not as expected")

_RETRY_S = 0.2


@dataclass(slots=True)
class _Entry:
    """A fact, and the tickets that are done when it stands: its own, and of those it replaced."""

    fact: Fact
    tickets: list[Ticket]


@dataclass(slots=True)
class _Lane:
    """What is on its way to one subject."""

    now: _Entry
    waiting: deque[_Entry] = field(default_factory=deque[_Entry])


class FactWriter:
    """Writes facts while we lead."""

    _group: asyncio.TaskGroup
    """There from `run` on, which is started before anything is written."""

    def __init__(
        self,
        publisher: Publisher,
        jetstream: JetStream,
        published: Published,
        office: DeadLetterOffice,
        *,
        journal: Journal | None,
        room: Room,
        own: OwnSequences,
        may_write: Callable[[], bool],
        compare_again: Callable[[str], None],
    ) -> None:
        self._publisher = publisher
        self._jetstream = jetstream
        self._published = published
        self._office = office
        self._journal = journal
        self._room = room
        self._own = own
        self._may_write = may_write
        self._compare_again = compare_again
        self._lanes: dict[str, _Lane] = {}

    async def run(self) -> None:
        """Keep the tasks that carry on after an answer; ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    async def write(self, fact: Fact, ticket: Ticket | None = None) -> None:
        """Start writing a fact; waits only for room in the publisher's window."""
        entry = _Entry(fact, [])
        if ticket is not None:
            ticket.one_more()
            entry.tickets.append(ticket)
        self._published.begin(fact)
        lane = self._lanes.get(fact.subject())
        if lane is not None:
            _queue(lane, entry)
            return
        self._lanes[fact.subject()] = lane = _Lane(entry)
        await self._send(lane, fact)

    async def _send(self, lane: _Lane, fact: Fact) -> None:
        if not self._may_write():
            # The lane ends all the same. Its tickets stay open: the kind does not move any more.
            log.info("fact.abandoned", subject=fact.subject(), reason="no longer leading")
            self._go_on(lane, fact)
            return
        expect = self._published.last_sequence(fact)
        ttl_s = TOMBSTONE_LIFE_S if isinstance(fact, ObjectGone) else 0
        payload = codec.encode(fact)
        if isinstance(fact, ObjectSeen) and not expect:
            if not self._room.takes_new_objects:
                self._wait_for_room(lane)
                return
            self._room.add(fact.subject(), payload)
        try:
            future = await self._publisher.send(
                fact.subject(), payload, expect_last=expect, ttl_s=ttl_s
            )
        except MessageTooLarge as problem:
            self._spawn(self._put_aside(lane, fact, problem))
        except BusError as problem:
            self._spawn(self._recover(lane, fact, problem))
        else:
            reach(SENT)
            future.add_done_callback(partial(self._answered, lane, fact))

    def _answered(self, lane: _Lane, fact: Fact, answer: "asyncio.Future[PubAck]") -> None:
        if answer.cancelled():
            return
        problem = answer.exception()
        if problem is not None:
            self._spawn(self._recover(lane, fact, problem))
            return
        self._stored(lane, fact, answer.result().seq)

    def _stored(self, lane: _Lane, fact: Fact, sequence: int) -> None:
        reach(STORED)
        _facts.add(1, kind=fact.kind)
        self._own.acknowledged(sequence)
        self._published.stands(fact, sequence)
        if self._journal is not None:
            self._journal.note(
                fact.subject(),
                codec.encode(fact),
                incarnation=self._published.incarnation,
                sequence=sequence,
            )
        self._next(lane, fact)

    def _next(self, lane: _Lane, fact: Fact) -> None:
        """The fact stands, or something newer does, or it never will."""
        for ticket in lane.now.tickets:
            ticket.done()
        self._go_on(lane, fact)

    def _go_on(self, lane: _Lane, fact: Fact) -> None:
        self._room.stands(fact.subject())
        if lane.waiting:
            lane.now = lane.waiting.popleft()
            self._spawn(self._send(lane, lane.now.fact))
            return
        del self._lanes[fact.subject()]
        self._published.end(fact)

    async def _recover(self, lane: _Lane, fact: Fact, problem: BaseException) -> None:
        """Find out what stands there now, and write again if it is not this fact."""
        if not isinstance(problem, BusError):
            raise problem
        subject = fact.subject()
        contested = isinstance(problem, WrongLastSequence)
        if contested:
            _repairs.add(1)
        elif isinstance(problem, PublishRefused) and not isinstance(problem, StreamFull):
            log.warning("fact.refused", subject=subject, problem=str(problem))
        stored = await self._what_stands(subject)
        if stored is None:
            self._published.lost(fact)
        elif stored.payload == codec.encode(fact):
            self._stored(lane, fact, stored.sequence)
            return
        else:
            self._published.found(subject, stored.sequence, stored.payload)
            if _is_newer(stored.payload, fact):
                self._compare_again(fact.kind)
                self._next(lane, fact)
                return
        if isinstance(problem, StreamFull):
            self._wait_for_room(lane)
            return
        if not contested:
            await asyncio.sleep(_RETRY_S)
        await self._send(lane, fact)

    def _wait_for_room(self, lane: _Lane) -> None:
        measured = self._room.wait(lane.now.fact.subject())
        self._spawn(self._send_when(measured, lane))

    async def _send_when(self, measured: asyncio.Event, lane: _Lane) -> None:
        """Write it when there may be room; by then the object may be another, or gone."""
        await measured.wait()
        while lane.waiting and not isinstance(lane.now.fact, ObjectGone):
            newer = lane.waiting.popleft()
            newer.tickets += lane.now.tickets
            lane.now = newer
        await self._send(lane, lane.now.fact)

    async def _what_stands(self, subject: str) -> Stored | None:
        while True:
            try:
                return await self._jetstream.last_message(STATE.name, subject)
            except BusError as problem:
                log.debug("fact.waiting", subject=subject, problem=str(problem))
                await asyncio.sleep(_RETRY_S)

    async def _put_aside(self, lane: _Lane, fact: Fact, problem: MessageTooLarge) -> None:
        # It never got a place in the log: the object's own version tells the letters apart.
        identity, version = "", 0
        if isinstance(fact, ObjectSeen | ObjectGone):
            identity, version = fact.uid, int(fact.resource_version)
        letter = Unreadable(STATE.name, identity, fact.subject(), version, codec.encode(fact))
        await self._office.put_aside(letter, str(problem))
        self._next(lane, fact)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._group.create_task(work)
        except RuntimeError:
            # Our turn is over: what stands on STATE tells the next one.
            work.close()


def _queue(lane: _Lane, entry: _Entry) -> None:
    newest = lane.waiting[-1] if lane.waiting else None
    fact = entry.fact
    if newest is not None:
        replaces = isinstance(newest.fact, ObjectSeen) and isinstance(fact, ObjectSeen)
        if replaces or not isinstance(fact, ObjectSeen | ObjectGone):
            lane.waiting.pop()
            entry.tickets += newest.tickets
    lane.waiting.append(entry)


def _is_newer(stored: bytes, fact: Fact) -> bool:
    """Is what stands there a later state of the object's name than this fact?"""
    known = sound_fact(fact.subject(), stored)
    if not isinstance(known, ObjectSeen | ObjectGone):
        return False
    return int(known.resource_version) > int(fact.resource_version)
