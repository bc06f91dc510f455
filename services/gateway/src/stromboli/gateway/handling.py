"""From a delivered intent to its outcome: check, fence, apply, answer.

Every intent ends in exactly one OUTCOME (a gang in one per part), stored before the intent is
acknowledged; one that comes again after that is neither applied nor answered again. What no
gateway of this version understands is parked until it expires; what can't be read goes to DEAD.
"""

import asyncio
import contextlib
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
    GenerateSecret,
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
    refused,
)
from stromboli.contracts.subjects import CLUSTER
from stromboli.gateway.applying import Applier, Done, SingleIntent
from stromboli.gateway.attempts import Expired
from stromboli.gateway.checks import check
from stromboli.gateway.deadlines import PartitionLost, Permit
from stromboli.gateway.ended import EndedIntents
from stromboli.gateway.fencing import FenceBook
from stromboli.gateway.gangs import GangBinder
from stromboli.gateway.published import Published
from stromboli.gateway.refusals import Refusal
from stromboli.gateway.settling import OwnWrites, Scope
from stromboli.gateway.visibility import Visibility
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
    ended: EndedIntents
    published: Published
    own_writes: OwnWrites
    visibility: Visibility
    is_leading: Callable[[], bool]

    async def handle(self, batch: Batch[Delivery]) -> None:
        reach(RECEIVED)
        if all(self._has_ended(item.payload) for item in batch.items):
            log.info("intent.repeated", key=batch.key)
            return
        delivery = batch.items[0].payload
        match delivery.intent:
            case UnknownIntent():
                await self._park(delivery, delivery.intent)
            case Fence():
                await self._fence(delivery, delivery.intent)
            case BindGang():
                await self._bind(batch)
            case CreateObject() | PatchObject() | DeleteObject() | EvictPod() | GenerateSecret():
                await self._apply(delivery, delivery.intent)

    def _has_ended(self, delivery: Delivery) -> bool:
        intent = delivery.intent
        id_ = intent.envelope.id if isinstance(intent, UnknownIntent) else intent.id
        return id_ in self.ended

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
        version = self.visibility.wrote(
            _scope(delivery.partition, intent),
            intent.kind,
            (intent.namespace, intent.name),
            uid=done.uid,
            resource_version=done.resource_version,
        )
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
        uids = [bind.uid for part in parts for bind in part.binds]
        if refusal is None and len(set(uids)) != len(uids):
            refusal = Refusal(Reason.BAD_REQUEST, "a pod stands in two parts of the gang")
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
        scope = _scope(batch.items[0].payload.partition, part)
        for pod in pods:
            if pod.bound:
                self.visibility.placed(scope, (part.namespace, pod.name), uid=pod.uid)
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
            scope = _scope(delivery.partition, fence)
            settled = await self.own_writes.wait_until_settled(scope, lambda: permit.expired)
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
        if lowest is None:
            if isinstance(intent, Fence):
                return None
            return Refusal(Reason.FENCED, "the fence of this partition can't be read: fence anew")
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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    await delivery.abandoned.wait()
                raise PartitionLost
        message = f"no gateway knew the type {unknown.tag!r} until it expired"
        await self.office.put_aside(delivery.source, message)
        answer = Refused(
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
        await self._store(answer)

    async def _refuse(self, intent: AnyIntent, refusal: Refusal) -> None:
        log.info(
            "intent.refused",
            key=intent.key,
            verb=str(intent.verb),
            kind=intent.kind,
            reason=str(refusal.reason),
            message=refusal.message,
        )
        answer = refused(intent, refusal.reason, refusal.message, at=self._now())
        await self._publish(intent, answer)

    async def _publish(self, intent: AnyIntent, outcome: AnyOutcome) -> None:
        await self._store(outcome)
        ended = str(outcome.reason) if isinstance(outcome, Refused) else "applied"
        _outcomes.add(1, service=intent.service, verb=str(intent.verb), outcome=ended)
        if intent.sent_at:
            _latency.record(max(0.0, self._now() - intent.sent_at), verb=str(intent.verb))

    async def _store(self, outcome: AnyOutcome) -> None:
        """Stored once per intent, also when two gateways answer it or a part comes again."""
        if outcome.intent_id in self.ended:
            return
        await self.publisher.publish(
            outcome.subject(), codec.encode(outcome), message_id=f"outcome-{outcome.intent_id}"
        )
        self.ended.add(outcome.intent_id)

    def _permit(self, intent: AnyIntent) -> Permit:
        return Permit(self.clock, intent.not_after, self.is_leading)

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _scope(partition: int, intent: AnyIntent) -> Scope:
    """Others go on while a fence waits: only what its own sender wrote can come to rest."""
    return (partition, intent.service, intent.shard)
