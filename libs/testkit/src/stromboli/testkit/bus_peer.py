"""A deciding service as a test plays it: a view of STATE, intents out, outcomes back.

It uses the very modules that real services use, so a test with a peer tests them too. What it
adds is memory: every delta and every outcome is kept, for the test to look at.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import decode_end, decode_projection
from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.intents import (
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    PatchObject,
    PodBinding,
    intent_id,
)
from stromboli.contracts.outcomes import AnyOutcome, FenceAnswered
from stromboli.contracts.partitions import job_key
from stromboli.contracts.permissions import DECIDING
from stromboli.contracts.streams import STATE, STREAMS
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.asking import OutcomeListener, ask, outcome_reader
from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.fences import Fencing
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.runtime.bus.leases import Lease, LeaseKeeper
from stromboli.runtime.bus.publisher import Publisher, publishing
from stromboli.runtime.bus.reader import LogMessage, LogReader
from stromboli.runtime.bus.streams import wait_for
from stromboli.runtime.bus.view import Delta, View
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.redaction import Secret
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

__all__ = ["DEFAULT_KINDS", "BusPeer"]

_LEASE_LIFE_S = 30.0
"""On a crowded machine, too, a test decides itself when a leader is deposed."""

DEFAULT_KINDS = ("namespace", "node", "queue", "vcjob", "vcpodgroup", "pod")


@dataclass
class BusPeer:
    """Enter its block to be connected; everything it heard stays readable afterwards."""

    service: str
    url: str
    kinds: Sequence[str] = DEFAULT_KINDS
    user: str = ""
    password: str = ""
    leads: bool = True
    """Whether it takes the lease of its service at once."""
    epoch: Epoch = NO_EPOCH
    outcomes: list[AnyOutcome] = field(default_factory=list[AnyOutcome])
    deltas: list[Delta[Any]] = field(default_factory=list[Delta[Any]])
    unreadable_facts: list[str] = field(default_factory=list[str])
    view: View[Any] = field(init=False)
    connection: BusConnection = field(init=False)
    publisher: Publisher = field(init=False)
    jetstream: JetStream = field(init=False)
    lease: Lease = field(init=False)
    _keeper: LeaseKeeper = field(init=False)
    _fencing: list[Fencing] = field(default_factory=list[Fencing])
    _attempts: Iterator[int] = field(default_factory=itertools.count)
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def __post_init__(self) -> None:
        self.view = View(self.kinds, _decode, self, decode_end=_decode_end)
        self.clock = SystemClock()

    # What the view tells us.

    def changed(self, delta: Delta[Any]) -> None:
        self.deltas.append(delta)

    def synced(self, kind: str) -> None:
        """Looked at through `view.unsynced`."""

    def unreadable(self, message: LogMessage, reason: str) -> None:
        self.unreadable_facts.append(f"{message.subject}: {reason}")

    def _hear(self, outcome: AnyOutcome) -> None:
        self.outcomes.append(outcome)
        for fencing in self._fencing:
            fencing.hear(outcome)

    # Life.

    async def __aenter__(self) -> Self:
        settings = BusSettings(url=self.url, user=self.user, password=Secret(self.password))
        self.connection = await self._stack.enter_async_context(connect(settings, self.service))
        self.publisher = await self._stack.enter_async_context(
            publishing(self.connection, self.clock)
        )
        self.jetstream = JetStream(self.connection)
        await wait_for(self.jetstream, STREAMS[:3])
        state = LogReader(
            self.connection,
            self.clock,
            stream=STATE.name,
            filters=["vc.state.>"],
            listener=self.view,
        )
        outcomes = outcome_reader(self.connection, self.clock, OutcomeListener(self._hear))
        await self._stack.enter_async_context(background(state.run(), outcomes.run()))
        await eventually(
            lambda: state.attached and outcomes.attached, deadline_s=10, describe="readers attach"
        )
        if self.service in DECIDING and self.leads:
            await self.lead()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    # Waiting.

    async def until_synced(self, deadline_s: float = 20.0) -> None:
        await eventually(
            lambda: not self.view.unsynced, deadline_s=deadline_s, describe="the view is synced"
        )

    async def until_seen(
        self, kind: str, namespace: str, name: str, deadline_s: float = 10.0
    ) -> Any:
        """The object, once the view has it."""
        await eventually(
            lambda: self.view.get(kind, namespace, name) is not None,
            deadline_s=deadline_s,
            describe=f"the view has {kind} {namespace}/{name}",
        )
        entry = self.view.get(kind, namespace, name)
        assert entry is not None
        return entry

    async def outcome_of(self, intent: AnyIntent, deadline_s: float = 15.0) -> AnyOutcome:
        """The answer to this intent; there must be exactly one."""

        def answers() -> list[AnyOutcome]:
            return [outcome for outcome in self.outcomes if outcome.intent_id == intent.id]

        await eventually(
            lambda: bool(answers()), deadline_s=deadline_s, describe=f"an outcome of {intent}"
        )
        return answers()[0]

    # Speaking.

    async def ask(self, intent: AnyIntent) -> AnyIntent:
        await ask(self.publisher, intent)
        return intent

    async def ask_and_hear(self, intent: AnyIntent, deadline_s: float = 15.0) -> AnyOutcome:
        await self.ask(intent)
        return await self.outcome_of(intent, deadline_s)

    async def lead(self) -> None:
        """Speak as the leader of this service from here on, whoever was it before.

        All peers of a service bear one name, so the newest takes the lease from the others.
        """
        self._keeper = LeaseKeeper(
            self.jetstream,
            self.publisher,
            self.clock,
            service=self.service,
            holder=f"peer of {self.service}",
            life_s=_LEASE_LIFE_S,
        )
        self.lease = await self._stack.enter_async_context(self._keeper.lead())
        self.epoch = self.lease.epoch

    async def fence(self, deadline_s: float = 20.0) -> FenceAnswered:
        """Once everything has ended that was asked for before, by whoever led then."""
        fencing = Fencing(
            self.jetstream,
            self.publisher,
            self.clock,
            keeper=self._keeper,
            lease=self.lease,
            service=self.service,
            shard=CLUSTER,
        )
        self._fencing.append(fencing)
        async with asyncio.timeout(deadline_s):
            return await fencing.run()

    async def until_reached(self, answer: FenceAnswered, deadline_s: float = 10.0) -> None:
        """The view shows everything that a fence's answer speaks of."""
        await eventually(
            lambda: all(
                self.view.position(kind) >= int(version)
                for kind, version in answer.versions.items()
            ),
            deadline_s=deadline_s,
            describe=f"the view at {answer.versions}",
        )

    def _common(self, job: str, namespace: str, lives_s: float) -> dict[str, Any]:
        now = self.clock.now().timestamp()
        attempt = next(self._attempts)
        return {
            "id": intent_id(self.service, namespace, job, attempt, str(now)),
            "key": job_key("vcjob", namespace, job),
            "service": self.service,
            "epoch": self.epoch,
            "lives_s": lives_s,
            "sent_at": now,
        }

    def create(
        self,
        kind: str,
        manifest: dict[str, Any],
        *,
        owner_uid: str = "",
        job: str = "job",
        lives_s: float = 20.0,
    ) -> CreateObject:
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        return CreateObject(
            **self._common(job, namespace, lives_s),
            kind=kind,
            namespace=namespace,
            name=metadata["name"],
            owner_uid=owner_uid,
            manifest=msgspec.json.encode(
                {
                    "apiVersion": kinds.by_token(kind).api_version,
                    "kind": kinds.by_token(kind).kind,
                    **manifest,
                }
            ),
        )

    def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        uid: str,
        body: object,
        job: str = "job",
        lives_s: float = 20.0,
        **more: Any,
    ) -> PatchObject:
        return PatchObject(
            **self._common(job, namespace, lives_s),
            kind=kind,
            namespace=namespace,
            name=name,
            uid=uid,
            patch=msgspec.json.encode(body),
            **more,
        )

    def delete(
        self,
        kind: str,
        namespace: str,
        name: str,
        *,
        uid: str,
        job: str = "job",
        lives_s: float = 20.0,
    ) -> DeleteObject:
        common = self._common(job, namespace, lives_s)
        return DeleteObject(**common, kind=kind, namespace=namespace, name=name, uid=uid)

    def evict(
        self, namespace: str, name: str, *, uid: str, job: str = "job", lives_s: float = 20.0
    ) -> EvictPod:
        return EvictPod(
            **self._common(job, namespace, lives_s), namespace=namespace, name=name, uid=uid
        )

    def bind(
        self,
        namespace: str,
        gang: str,
        binds: Sequence[tuple[str, str, str]],
        *,
        part: int = 0,
        parts: int = 1,
        attempt: str = "1",
        lives_s: float = 20.0,
    ) -> BindGang:
        """`binds` are (pod, uid, node)."""
        return BindGang(
            **self._common(gang, namespace, lives_s),
            namespace=namespace,
            name=gang,
            attempt=attempt,
            part=part,
            parts=parts,
            binds=tuple(PodBinding(*bind) for bind in binds),
        )


def _decode(token: str, projection: msgspec.Raw) -> Any:
    return decode_projection(kinds.by_token(token), projection)


def _decode_end(token: str, known: Any, projection: msgspec.Raw) -> Any:
    return decode_end(kinds.by_token(token), known, projection)
