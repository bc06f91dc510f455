"""A cluster in memory behind a real bus: its facts stand on STATE, intents are carried out.

It takes the place of the gateway and of the API server, and says on the bus exactly what they
would: facts with the sequence that their subjects must have, positions, outcomes before
acknowledgements, answers to fences. So a service that decides can't tell the difference, and
a test can have one cluster after the other on one NATS server.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from stromboli.api.meta import KubeObject
from stromboli.api.projections import encode_end, encode_projection
from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.facts import KindSynced, ObjectGone, ObjectSeen
from stromboli.contracts.intents import AnyIntent, Fence, Verb
from stromboli.contracts.outcomes import (
    AnyOutcome,
    FenceAnswered,
    GatewayTurn,
    Reason,
    Refused,
    refused,
)
from stromboli.contracts.permissions import DECIDING
from stromboli.contracts.streams import HISTORY, STATE
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.dead_letters import Unreadable
from stromboli.runtime.bus.intake import Delivery, UnknownIntent
from stromboli.runtime.bus.ordering import Batch
from stromboli.simulating.admission import Admission
from stromboli.simulating.completing import completed
from stromboli.simulating.gateway import Gateway
from stromboli.simulating.kubelet import Kubelets
from stromboli.simulating.store import Place, Store, place_of
from stromboli.testkit.bus_contents import purge
from stromboli.testkit.bus_fixtures import Bus

__all__ = ["ClusterOnTheBus"]

Check: TypeAlias = Callable[[AnyIntent], tuple[Reason, str] | None]
_Fact: TypeAlias = ObjectSeen | ObjectGone | KindSynced


_TURN = Epoch(1, 1)


class ClusterOnTheBus:
    """Give it to an `IntentIntake` as its handler; `begin` makes a new cluster of it."""

    def __init__(self, bus: Bus, *, kinds: Iterable[str], check: Check) -> None:
        """`kinds` are those that are told of; `check` may refuse an intent, as a gateway does."""
        self.sequence = 0
        """Of the newest fact on STATE."""
        self.incarnation = ""
        self.refused: list[Refused] = []
        self._bus = bus
        self._kinds = tuple(kinds)
        self._check = check
        self._number = 0
        self._answered = 0
        self._untold: list[_Fact] = []
        self._telling = asyncio.Lock()
        self._moved: dict[str, str] = {}
        """Kind → how far it is on STATE, where that was not told."""
        self._last: dict[str, int] = {}
        self._settle_in(Store(0.0))

    def _settle_in(self, store: Store) -> None:
        self._store = store
        self._admission = Admission(store, (SCHEDULER_NAME,))
        self.gateway = Gateway(store)
        self.kubelets = Kubelets(store)
        store.watchers.append(self._saw)

    async def begin(self, objects: Iterable[KubeObject], *, now: float) -> None:
        """Nothing is left of the cluster before; this one is on STATE, with its markers."""
        await purge(self._bus.connection, STATE.name)
        await purge(self._bus.connection, HISTORY.name)
        self.incarnation = (await self._bus.jetstream.stream_info(STATE.name)).created
        self._number += 1
        self._last.clear()
        self._untold.clear()
        self.refused.clear()
        self._settle_in(Store(now))
        for item in objects:
            self.put(item)
        for service in DECIDING:
            turn = GatewayTurn(service=service, gateway=_TURN)
            await self._bus.publisher.publish(turn.subject(), codec.encode(turn))
        self._moved = dict.fromkeys(self._kinds, "1")
        await self.tell()

    # What happens in the cluster.

    @property
    def objects(self) -> dict[Place, Any]:
        return self._store.objects

    def get(self, kind: str, namespace: str, name: str) -> Any:
        return self._store.objects[kind, namespace, name]

    def put(self, item: KubeObject) -> None:
        """It appears or changes; `tell` says so on the bus."""
        if place_of(item) not in self._store.objects:
            # Intents are known by an id that the bus remembers for minutes, and made of uids:
            # an object of this cluster must not be taken for one of the cluster before.
            uid = f"{'-'.join(place_of(item))}.{self._number}"
            item = replace(item, metadata=replace(item.metadata, uid=uid))
            item = self._admission.admitted(item)
        self._store.put(completed(item, self._store, SCHEDULER_NAME))

    def end_leaving(self) -> None:
        """Pods that were told to go are gone."""
        self.kubelets.end_leaving()

    def set_time(self, now: float) -> None:
        self._store.now = now

    def _saw(
        self, _now: float, kind: str, before: KubeObject | None, after: KubeObject | None
    ) -> None:
        item = after or before
        if item is None or kind not in self._kinds:
            return
        fact, encode = (
            (ObjectSeen, encode_projection) if after is not None else (ObjectGone, encode_end)
        )
        self._untold.append(
            fact(
                kind=kind,
                namespace=item.metadata.namespace,
                name=item.metadata.name,
                uid=item.metadata.uid,
                resource_version=self._store.version_of(place_of(item)),
                projection=msgspec.Raw(encode(item)),
            )
        )

    # What the bus is told.

    @property
    def has_told_all(self) -> bool:
        return not self._untold and not self._telling.locked()

    async def tell(self) -> None:
        """Everything that has happened is on STATE."""
        async with self._telling:
            while self._untold:
                fact = self._untold.pop(0)
                subject = fact.subject()
                ack = await self._bus.publisher.publish(
                    subject, codec.encode(fact), expect_last=self._last.get(subject, 0)
                )
                self._last[subject] = self.sequence = ack.seq
                if isinstance(fact, ObjectSeen | ObjectGone):
                    self._moved[fact.kind] = fact.resource_version
            while self._moved:
                await self._tell_position(*self._moved.popitem())

    async def _tell_position(self, kind: str, version: str) -> None:
        """Everything of this kind is on STATE, up to what was last written."""
        position = KindSynced(
            kind=kind, incarnation=self.incarnation, resource_version=version, count=0
        )
        subject = position.subject()
        ack = await self._bus.publisher.publish(
            subject, codec.encode(position), expect_last=self._last.get(subject, 0)
        )
        self._last[subject] = self.sequence = ack.seq

    # What a gateway does with intents.

    async def handle(self, batch: Batch[Delivery]) -> None:
        for item in batch.items:
            intent = item.payload.intent
            if isinstance(intent, UnknownIntent):
                raise TypeError(f"an intent that nobody knows: {intent.tag}")
            outcome = self._outcome(intent)
            await self._answer(outcome)

    async def _answer(self, outcome: AnyOutcome) -> None:
        """What a watch shows and what was answered come in any order: each in turn is first."""
        self._answered += 1
        if isinstance(outcome, FenceAnswered) or self._answered % 2:
            await self.tell()
        outcome = replace(outcome, gateway=_TURN)
        await self._bus.publisher.publish(outcome.subject(), codec.encode(outcome))
        await self.tell()

    def arrived(self, delivery: Delivery) -> None:
        """Everybody who asks leads, here."""

    async def unreadable(self, message: Unreadable, reason: str, *, intent_id: str) -> None:
        raise AssertionError(f"{message.subject}: {reason} ({intent_id})")

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        raise AssertionError(f"intents of {batch.key} can't be carried out") from problem

    def _outcome(self, intent: AnyIntent) -> AnyOutcome:
        if isinstance(intent, Fence):
            return FenceAnswered(
                intent_id=intent.id,
                service=intent.service,
                verb=Verb.FENCE,
                kind=CLUSTER,
                key=intent.key,
                epoch=intent.epoch,
            )
        refusal = self._check(intent)
        if refusal is not None:
            outcome = refused(intent, *refusal, at=self._store.now)
        else:
            outcome = self.gateway.carry_out(intent)
        if outcome is None:
            raise TypeError(f"no answer to {intent!r}")
        if isinstance(outcome, Refused):
            self.refused.append(outcome)
        return outcome
