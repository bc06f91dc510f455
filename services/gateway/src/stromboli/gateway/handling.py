"""From a delivered intent to its outcome: check, fence, apply, answer.

Every intent ends in exactly one OUTCOME (a gang in one per part), stored before the intent is
acknowledged. What no gateway of this version understands is parked until it expires; what
can't be read goes to DEAD.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from stromboli.contracts import codec
from stromboli.contracts.intents import (
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    PatchObject,
    Verb,
)
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    FenceAnswered,
    GangBound,
    PodBound,
    Reason,
    Refused,
)
from stromboli.contracts.subjects import CLUSTER
from stromboli.gateway.applying import Applier, Done, SingleIntent
from stromboli.gateway.attempts import Expired
from stromboli.gateway.checks import check
from stromboli.gateway.deadlines import Permit
from stromboli.gateway.fencing import FenceBook
from stromboli.gateway.gangs import GangBinder
from stromboli.gateway.published import Published
from stromboli.gateway.refusals import Refusal
from stromboli.gateway.settling import OwnWrites
from stromboli.runtime.bus.dead_letters import DeadLetterOffice, Unreadable
from stromboli.runtime.bus.intake import Delivery, UnknownIntent
from stromboli.runtime.bus.ordering import Batch
from stromboli.runtime.bus.publisher import Publisher
from stromboli.runtime.clock import Clock
from stromboli.runtime.crashpoints import declare, reach
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter, histogram

log = get_logger(__name__)

RECEIVED = declare("gateway.intent.received", "an intent was handed out, nothing was done yet")
CHECKED = declare("gateway.intent.checked", "it may be applied, nothing was sent yet")
APPLIED = declare("gateway.intent.applied", "the API server has it, its outcome is not stored")

_outcomes = counter(
    "stromboli.intents.ended", "Intents by how they ended", labels=["service", "verb", "outcome"]
)
_latency = histogram("stromboli.intent.duration", "From sent to answered", labels=["verb"])


@dataclass(slots=True)
class IntentHandling:
    """What the intake calls for every batch."""

    publisher: Publisher
    clock: Clock
    office: DeadLetterOffice
    applier: Applier
    gangs: GangBinder
    fences: FenceBook
    published: Published
    own_writes: OwnWrites
    is_leading: Callable[[], bool]

    async def handle(self, batch: Batch[Delivery]) -> None:
        reach(RECEIVED)
        delivery = batch.items[0].payload
        match delivery.intent:
            case UnknownIntent():
                await self._park(delivery, delivery.intent)
            case Fence():
                await self._fence(delivery, delivery.intent)
            case BindGang():
                await self._bind(batch)
            case CreateObject() | PatchObject() | DeleteObject() | EvictPod():
                await self._apply(delivery, delivery.intent)

    async def unreadable(self, message: Unreadable, reason: str) -> None:
        await self.office.put_aside(message, reason)

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        for item in batch.items:
            await self.office.put_aside(item.payload.source, f"could not be applied: {problem!r}")
            if not isinstance(item.payload.intent, UnknownIntent):
                refusal = Refusal(Reason.INVALID, f"the gateway failed on it: {problem!r}")
                await self._refuse(item.payload.intent, refusal)

    # One object.

    async def _apply(self, delivery: Delivery, intent: SingleIntent) -> None:
        permit = self._permit(intent)
        refusal = await self._forbidden(delivery, intent, permit)
        if refusal is None:
            reach(CHECKED)
            try:
                result = await self.applier.apply(intent, permit)
            except Expired as late:
                result = Refusal(Reason.EXPIRED, str(late))
        else:
            result = refusal
        if isinstance(result, Refusal):
            await self._refuse(intent, result)
            return
        reach(APPLIED)
        await self._publish(intent, self._applied(delivery, intent, result))

    def _applied(self, delivery: Delivery, intent: SingleIntent, done: Done) -> Applied:
        version = self._visible_version(delivery.partition, intent, done)
        return Applied(
            intent_id=intent.id,
            service=intent.service,
            shard=intent.shard,
            verb=intent.verb,
            kind=intent.kind,
            key=intent.key,
            at=self._now(),
            cause=intent.id,
            namespace=intent.namespace,
            name=intent.name,
            uid=done.uid,
            resource_version=version,
            already=done.already,
        )

    def _visible_version(self, partition: int, intent: SingleIntent, done: Done) -> str:
        """The resourceVersion at which the views show this write.

        When the watch has brought it back already without a change of the projection, no new
        fact will come: then it is the one that stands.
        """
        key = (intent.namespace, intent.name)
        standing = self.published.standing(intent.kind, key)
        seen = self.published.seen_version(intent.kind, key)
        subject_busy = self.published.is_planned(intent.kind, key)
        if standing is not None and standing.uid == done.uid and not subject_busy:
            if not done.resource_version and standing.gone:
                return ""
            if done.resource_version and int(done.resource_version) <= seen:
                return standing.resource_version
        self.own_writes.wrote(
            partition,
            intent.kind,
            key,
            uid=done.uid,
            resource_version=done.resource_version,
        )
        return done.resource_version

    # A gang.

    async def _bind(self, batch: Batch[Delivery]) -> None:
        parts = [i.payload.intent for i in batch.items if isinstance(i.payload.intent, BindGang)]
        permit = self._permit(parts[0])
        refusal = None
        for item, part in zip(batch.items, parts, strict=True):
            refusal = refusal or await self._forbidden(item.payload, part, permit)
        if refusal is None and not batch.complete:
            have = f"{len(parts)} of {parts[0].parts}"
            refusal = Refusal(Reason.EXPIRED, f"only {have} parts of the gang arrived in time")
        if refusal is None:
            reach(CHECKED)
            try:
                results = await self.gangs.bind(parts, permit)
            except Expired as late:
                refusal = Refusal(Reason.EXPIRED, str(late))
            else:
                reach(APPLIED)
                for part, pods in results:
                    await self._publish(part, self._gang_bound(batch, part, pods))
                return
        for part in parts:
            await self._refuse(part, refusal)

    def _gang_bound(
        self, batch: Batch[Delivery], part: BindGang, pods: list[PodBound]
    ) -> GangBound:
        partition = batch.items[0].payload.partition
        for pod in pods:
            key = (part.namespace, pod.name)
            shown = self.own_writes.is_placed(key, pod.uid)
            if pod.bound and not (shown and not self.published.is_planned("pod", key)):
                self.own_writes.placed(partition, key, uid=pod.uid)
        return GangBound(
            intent_id=part.id,
            service=part.service,
            shard=part.shard,
            verb=part.verb,
            kind=part.kind,
            key=part.key,
            at=self._now(),
            cause=part.id,
            namespace=part.namespace,
            name=part.name,
            attempt=part.attempt,
            part=part.part,
            parts=part.parts,
            pods=tuple(pods),
        )

    # Fences, and what is refused.

    async def _fence(self, delivery: Delivery, fence: Fence) -> None:
        permit = self._permit(fence)
        refusal = await self._forbidden(delivery, fence, permit)
        if refusal is None:
            partition = delivery.partition
            settled = await self.own_writes.wait_until_settled(partition, lambda: permit.expired)
            if not settled:
                refusal = Refusal(Reason.EXPIRED, "the watch has not brought back all writes yet")
        if refusal is not None:
            await self._refuse(fence, refusal)
            return
        await self.fences.raise_to(delivery.partition, fence.service, fence.shard, fence.epoch)
        answer = FenceAnswered(
            intent_id=fence.id,
            service=fence.service,
            shard=fence.shard,
            verb=Verb.FENCE,
            kind=CLUSTER,
            key=fence.key,
            at=self._now(),
            cause=fence.id,
            partition=delivery.partition,
            epoch=fence.epoch,
            incarnation=self.published.incarnation,
            state_sequence=self.published.sequence,
        )
        await self._publish(fence, answer)

    async def _forbidden(
        self, delivery: Delivery, intent: AnyIntent, permit: Permit
    ) -> Refusal | None:
        refusal = check(intent, delivery.source.subject)
        if refusal is not None:
            return refusal
        if permit.expired:
            return Refusal(Reason.EXPIRED, f"it arrived {-permit.remaining_s:.1f} s too late")
        lowest = await self.fences.epoch_of(delivery.partition, intent.service, intent.shard)
        if intent.epoch < lowest:
            return Refusal(
                Reason.FENCED, f"epoch {intent.epoch} was replaced by {lowest}: decide no more"
            )
        return None

    async def _park(self, delivery: Delivery, unknown: UnknownIntent) -> None:
        """A newer gateway may take over and know it; until it expires, it keeps its place."""
        envelope = unknown.envelope
        remaining_s = envelope.not_after - self._now()
        log.warning("intent.parked", tag=unknown.tag, key=envelope.key, for_s=round(remaining_s, 1))
        if remaining_s > 0:
            await asyncio.sleep(remaining_s)
        message = f"no gateway knew the type {unknown.tag!r} until it expired"
        await self.office.put_aside(delivery.source, message)
        refused = Refused(
            intent_id=envelope.id,
            service=envelope.service,
            shard=envelope.shard,
            verb=Verb.FENCE,
            kind=CLUSTER,
            key=envelope.key,
            at=self._now(),
            cause=envelope.id,
            reason=Reason.UNKNOWN_TYPE,
            message=message,
        )
        await self._store(refused)

    async def _refuse(self, intent: AnyIntent, refusal: Refusal) -> None:
        named = not isinstance(intent, Fence)
        refused = Refused(
            intent_id=intent.id,
            service=intent.service,
            shard=intent.shard,
            verb=intent.verb,
            kind=intent.kind,
            key=intent.key,
            at=self._now(),
            cause=intent.id,
            namespace=intent.namespace if named else "",
            name=intent.name if named else "",
            reason=refusal.reason,
            message=refusal.message,
        )
        log.info(
            "intent.refused",
            key=intent.key,
            verb=str(intent.verb),
            kind=intent.kind,
            reason=str(refusal.reason),
            message=refusal.message,
        )
        await self._publish(intent, refused)

    async def _publish(self, intent: AnyIntent, outcome: AnyOutcome) -> None:
        await self._store(outcome)
        ended = str(outcome.reason) if isinstance(outcome, Refused) else "applied"
        _outcomes.add(1, service=intent.service, verb=str(intent.verb), outcome=ended)
        if intent.sent_at:
            _latency.record(max(0.0, self._now() - intent.sent_at), verb=str(intent.verb))

    async def _store(self, outcome: AnyOutcome) -> None:
        """Stored once per intent, also when the intent is answered a second time."""
        await self.publisher.publish(
            outcome.subject(), codec.encode(outcome), message_id=f"outcome-{outcome.intent_id}"
        )

    def _permit(self, intent: AnyIntent) -> Permit:
        return Permit(self.clock, intent.not_after, self.is_leading)

    def _now(self) -> float:
        return self.clock.now().timestamp()
