"""What a gateway does while it leads: follow every kind, and apply intents.

A standby reads STATE along and waits for the lease. The leader starts over when STATE turns
out to be another log (its data was lost), and stops at once when it loses the lease.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from stromboli.api import kinds
from stromboli.api.kinds import Kind
from stromboli.contracts.facts import KindSynced
from stromboli.contracts.streams import JOURNAL, OUTCOME, STATE, STREAMS, StreamSpec
from stromboli.gateway.answered import AnsweredLog
from stromboli.gateway.applying import Applier
from stromboli.gateway.config import GatewaySettings
from stromboli.gateway.deadlines import NoLongerLeading
from stromboli.gateway.feeding import KindFeed
from stromboli.gateway.gangs import GangBinder
from stromboli.gateway.handling import IntentHandling
from stromboli.gateway.lease_book import LeaseBook
from stromboli.gateway.own_sequences import OwnSequences
from stromboli.gateway.placing import Places
from stromboli.gateway.positions import Positions
from stromboli.gateway.published import Published
from stromboli.gateway.room import Room
from stromboli.gateway.turns import Turn
from stromboli.gateway.writing import FactWriter
from stromboli.kube.client import KubeClient
from stromboli.kube.reflector import Reflector, ReflectorSettings
from stromboli.runtime.bus.connection import BusConnection, certainly_cancellable
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.errors import BusError
from stromboli.runtime.bus.intake import IntentIntake
from stromboli.runtime.bus.jetstream import JetStream, Stored
from stromboli.runtime.bus.journal import Journal
from stromboli.runtime.bus.leases import Lease, LeaseKeeper
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.bus.reader import LogReader
from stromboli.runtime.bus.streams import reconcile
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.quiet import once_per

if TYPE_CHECKING:
    from stromboli.gateway.registering import Registering

log = get_logger(__name__)
quiet_log = once_per(60.0, log)

WATCHED: tuple[Kind[Any], ...] = tuple(
    kinds.by_token(token)
    for token in (
        "namespace",
        "node",
        "priorityclass",
        "resourcequota",
        "poddisruptionbudget",
        "queue",
        "vcjob",
        "vcpodgroup",
        "vccronjob",
        "jobflow",
        "jobtemplate",
        "hypernode",
        "command",
        "replicaset",
        "statefulset",
        "daemonset",
        "k8sjob",
        "persistentvolumeclaim",
        "persistentvolume",
        "storageclass",
        "csinode",
        "pod",
    )
)
"""Kinds of which all objects become facts. No Secrets and no ConfigMaps: their contents stay
where they are, but for the one ConfigMap that holds the scheduler's configuration."""


_LOOK_S = 0.1
_STREAMS_EVERY_S = 5.0
_RIVALS_EVERY_S = 1.0
_READ_ONE_BY_ONE = 1000
"""More foreign messages than that are read as a stream."""
_RUBBISH_KEPT = 1000


async def _or_timeout(event: Coroutine[Any, Any, object], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event


class _StartOver(Exception):
    """What is on STATE is not what we wrote there: begin again."""


@dataclass(slots=True)
class Gateway:
    """A gateway, leading or standing by."""

    settings: GatewaySettings
    connection: BusConnection
    publisher: Publisher
    kube: KubeClient
    clock: Clock
    holder: str
    rng: random.Random
    jetstream: JetStream = field(init=False)
    published: Published = field(init=False)
    answered: AnsweredLog = field(default_factory=AnsweredLog)
    office: DeadLetterOffice = field(init=False)
    journal: Journal | None = field(init=False)
    room: Room = field(init=False)
    feeds: dict[str, KindFeed] = field(default_factory=dict)
    lease: Lease | None = None
    registering: "Registering | None" = None
    _writes_alone: asyncio.Event = field(default_factory=asyncio.Event)
    """We lead and know all of STATE: whatever comes now is our own."""
    _others_write: asyncio.Event = field(default_factory=asyncio.Event)
    """The opposite."""
    turn: Turn | None = None
    """While our answers count, as far as we know."""
    _streams_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _rubbish: deque[Unreadable] = field(default_factory=lambda: deque(maxlen=_RUBBISH_KEPT))
    _rubbish_found: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.jetstream = JetStream(self.connection)
        self.published = Published(self._compare_again, self._found_rubbish, self.clock.monotonic)
        self.office = DeadLetterOffice(self.publisher, self.clock, "gateway")
        self.room = Room(limit=self.settings.state_max_bytes)
        self.journal = Journal(self.publisher) if self.settings.journal else None

    @property
    def followed(self) -> tuple[Kind[Any], ...]:
        """Kinds that become facts, wholly or in part."""
        return WATCHED if self.settings.config_map is None else (*WATCHED, kinds.CONFIG_MAP)

    @property
    def streams(self) -> tuple[StreamSpec, ...]:
        """The streams that we keep; a JOURNAL that nobody wants any more is left alone."""
        state = msgspec.structs.replace(STATE, max_bytes=int(self.settings.state_max_bytes))
        others = tuple(spec for spec in STREAMS if spec.name != STATE.name)
        return (state, *others, JOURNAL) if self.settings.journal else (state, *others)

    @property
    def is_leading(self) -> bool:
        return self.lease is not None and self.lease.held

    def not_ready(self) -> str | None:
        """Why this gateway can't do its work right now; a standby that could lead is ready."""
        if not self.connection.connected:
            return "not connected to NATS"
        if not self.published.is_caught_up:
            return "STATE has not been read yet"
        if not self.is_leading:
            return None
        if self.room.problem:
            return self.room.problem
        missing = [
            kind.token for kind in self.followed if self.published.position(kind.token) is None
        ]
        if missing:
            return f"kinds not listed yet: {', '.join(missing)}"
        return None if self.registering is None else self.registering.problem or None

    def _compare_again(self, kind: str) -> None:
        """Somebody else wrote to STATE: compare the whole kind with the API server."""
        if kind in self.feeds and self.is_leading:
            log.warning("fact.foreign", kind=kind)
            self._list_again(kind)

    def _found_rubbish(self, subject: str, sequence: int, payload: bytes) -> None:
        letter = Unreadable(STATE.name, self.published.incarnation, subject, sequence, payload)
        self._rubbish.append(letter)
        self._rubbish_found.set()

    async def put_rubbish_aside(self) -> None:
        """What stood on STATE and could not be read is replaced; DEAD keeps what it was."""
        while True:
            await self._rubbish_found.wait()
            self._rubbish_found.clear()
            while self._rubbish:
                await self.office.put_aside(self._rubbish[0], "a fact that can't be read")
                self._rubbish.popleft()

    def _list_again(self, kind: str) -> None:
        self.feeds[kind].reflector.request_relist()

    async def keep_streams(self) -> None:
        """Bring the streams to what the contract says, at start and after every reconnect.

        And now and then: nobody tells us when one was deleted by hand.
        """
        self._streams_wanted.set()
        stop_watching = self.connection.watch_link(
            reconnected=self._streams_wanted.set, disconnected=lambda: None
        )
        try:
            while True:
                await _or_timeout(self._streams_wanted.wait(), _STREAMS_EVERY_S)
                self._streams_wanted.clear()
                if not self.connection.connected:
                    continue  # the reconnect will say so
                try:
                    found = await reconcile(
                        self.jetstream, self.streams, replicas=self.settings.stream_replicas
                    )
                    self._measure(found[STATE.name].state.bytes)
                except BusError as problem:
                    log.warning("streams.unready", problem=str(problem))
                    await asyncio.sleep(0.5)
                    self._streams_wanted.set()
        finally:
            stop_watching()

    def _measure(self, used: int) -> None:
        self.room.measured(used)
        if self.room.is_filling:
            quiet_log.warning(
                "state.filling",
                bytes=used,
                limit=self.room.limit,
                advice="raise state_max_bytes or delete what is finished",
            )

    async def take_turns(self) -> None:
        """Lead whenever the lease can be had; ends only by cancellation."""
        keeper = LeaseKeeper(
            self.jetstream,
            self.publisher,
            self.clock,
            service="gateway",
            holder=self.holder,
            life_s=self.settings.lease_life,
        )
        while True:
            async with keeper.lead() as lease:
                self.lease = lease
                # A task group that ends with an error forgets that it was cancelled meanwhile.
                await certainly_cancellable(self._lead_until_lost(lease))
            self.lease = None

    async def _lead_until_lost(self, lease: Lease) -> None:
        while lease.held:
            await self._wait_for_logs(lease)
            generation, own = self.published.generation, OwnSequences(self.published.sequence)
            self.turn = None
            self._others_write.clear()
            self._writes_alone.set()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._end_when_lost(lease, generation))
                    await self._start_work(group, lease, own)
            except* (_StartOver, NoLongerLeading):
                log.info("gateway.starting_over", leading=lease.held)
            finally:
                self.published.read_again(own.known_up_to)
                self._writes_alone.clear()
                self._others_write.set()

    async def read_state(self) -> None:
        """Read STATE as long as others may write it; ends only by cancellation."""
        while True:
            reader = LogReader(
                self.connection,
                self.clock,
                stream=STATE.name,
                filters=["vc.state.>"],
                listener=self.published,
            )
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(reader.run(), name="state reader")
                await self._writes_alone.wait()
                reading.cancel()
            await self._others_write.wait()

    async def _wait_for_logs(self, lease: Lease) -> None:
        """Know what stands on STATE, and all that our predecessor has answered."""
        while lease.held and not (self.published.is_caught_up and await self._knows_outcomes()):
            await _or_timeout(lease.lost.wait(), _LOOK_S)

    async def _look_for_rivals(self, own: OwnSequences) -> None:
        """Has somebody else written to STATE, or is it another log?"""
        while True:
            await asyncio.sleep(_RIVALS_EVERY_S)
            try:
                info = await self.jetstream.stream_info(STATE.name)
                is_shorter = info.state.last_seq < self.published.sequence
                if info.created != self.published.incarnation or is_shorter:
                    raise _StartOver
                foreign = own.foreign(info.state.last_seq)
                if len(foreign) > _READ_ONE_BY_ONE:
                    raise _StartOver
                for sequence in foreign:
                    stored = await self.jetstream.message(STATE.name, sequence)
                    if stored is not None:
                        self._found_foreign(stored)
            except BusError as problem:
                log.debug("rivals.unknown", problem=str(problem))

    def _found_foreign(self, stored: Stored) -> None:
        kind = self.published.found(stored.subject, stored.sequence, stored.payload)
        if kind:
            self._compare_again(kind)

    async def _knows_outcomes(self) -> bool:
        try:
            info = await self.jetstream.stream_info(OUTCOME.name)
        except BusError:
            return False
        # The newest message is the last to go: without any, there is nothing to wait for.
        last = info.state.last_seq if info.state.messages else 0
        return self.answered.knows_all(info.created, last)

    async def _end_when_lost(self, lease: Lease, generation: int) -> None:
        while self._is_our_turn(lease, generation):
            await _or_timeout(lease.lost.wait(), _LOOK_S)
        raise _StartOver

    def _is_our_turn(self, lease: Lease, generation: int) -> bool:
        if not lease.held or self.published.generation != generation:
            return False
        return self.turn is None or self.turn.is_ours

    async def _start_work(self, group: asyncio.TaskGroup, lease: Lease, own: OwnSequences) -> None:
        # What a former turn had on its way is answered by STATE itself, if it arrived.
        self.published.abandon_plans()
        self.room.forget()
        turn = Turn(lease, self.publisher, self.jetstream, self.answered)
        await turn.begin()
        self.turn = turn
        group.create_task(turn.keep(), name="turn")
        places, positions = Places(self.answered.settled), Positions(self.clock)
        writer = FactWriter(
            self.publisher,
            self.jetstream,
            self.published,
            self.office,
            journal=self.journal,
            room=self.room,
            own=own,
            may_write=lambda: lease.held,
            compare_again=self._compare_again,
        )
        group.create_task(writer.run(), name="fact writer")
        group.create_task(self._look_for_rivals(own), name="rivals")
        if self.settings.webhooks.mode != "off":
            self.registering = self._registering(lease)
            group.create_task(self.registering.run(), name="webhooks")
        self.feeds = {
            kind.token: self._feed(kind, writer, positions, places) for kind in self.followed
        }
        for token, feed in self.feeds.items():
            group.create_task(feed.run(), name=f"feed {token}")
        group.create_task(self._tell_positions(positions, writer), name="positions")
        handling = IntentHandling(
            lease.epoch,
            self.publisher,
            self.clock,
            self.office,
            Applier(self.kube, self.rng, self.clock, self.published.version_of),
            GangBinder(self.kube, places, self.rng, self.clock, self.answered.is_uncertain),
            LeaseBook(self.jetstream, self.publisher),
            self.answered,
            follows=frozenset(kind.token for kind in WATCHED),
            announce=positions.announce,
            is_leading=lambda: lease.held,
        )
        owner = f"{lease.epoch.revision}"
        intake = IntentIntake(self.connection, self.clock, handling, owner=owner)
        group.create_task(intake.run(), name="intents")

    # How far STATE is.

    async def _tell_positions(self, positions: Positions, writer: FactWriter) -> None:
        while True:
            for kind, position, count in await positions.wait_until_due():
                await writer.write(
                    KindSynced(
                        kind=kind,
                        incarnation=self.published.incarnation,
                        resource_version=str(position),
                        count=count,
                    )
                )

    def _registering(self, lease: Lease) -> "Registering":
        # The rules name the webhooks; who registers none does not load them.
        from stromboli.gateway.registering import Registering

        return Registering(
            self.settings.webhooks, self.kube, self.clock, may_write=lambda: lease.held
        )

    def _feed(
        self, kind: Kind[Any], writer: FactWriter, positions: Positions, places: Places
    ) -> KindFeed:
        settings = ReflectorSettings(
            relist_every_s=self.settings.kube.relist_every, max_retry_s=5.0
        )
        resume_from = self.published.resume_from(kind.token) or None
        if kind is kinds.CONFIG_MAP and self.settings.config_map is not None:
            namespace, name = self.settings.config_map
            settings = msgspec.structs.replace(
                settings, namespace=namespace, field_selector=f"metadata.name={name}"
            )
            # Where a predecessor stopped says nothing: it may have followed another one.
            resume_from = None
        reflector = Reflector(
            self.kube, kind, rng=self.rng, settings=settings, resume_from=resume_from
        )
        return KindFeed(
            kind,
            reflector,
            kube=self.kube,
            published=self.published,
            writer=writer,
            positions=positions,
            places=places,
            jetstream=self.jetstream,
            office=self.office,
            restored=lambda version: self.answered.forget_beyond(kind.token, version),
        )
