"""From a delivered intent to its outcome: check, ask whose turn it is, apply, answer.

Every stored intent ends in exactly one OUTCOME that counts (a gang in one per part), stored
before the intent is acknowledged; one that comes again after that is neither applied nor answered
again. That holds for what can't be read, too, as long as it says whose it is.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.errors import BadSubject, MessageTooLarge
from stromboli.contracts.intents import (
    INTENT_SUBJECT,
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
    Uncertain,
    refused,
)
from stromboli.contracts.subjects import SubjectTemplate
from stromboli.gateway.answered import AnsweredLog, Sender
from stromboli.gateway.applying import Applier, Done, SingleIntent
from stromboli.gateway.checks import check
from stromboli.gateway.deadlines import Permit
from stromboli.gateway.gangs import GangBinder, uncertain
from stromboli.gateway.lease_book import FenceIs, LeaseBook
from stromboli.gateway.refusals import Refusal, Unclear
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
_fenced = counter("stromboli.intents.fenced", "Intents of who does not lead", labels=["service"])
_foreign_fences = counter(
    "stromboli.fences.refused", "Fences that no live lease names", labels=["service"]
)
_latency = histogram("stromboli.intent.duration", "From sent to answered", labels=["verb"])


_SUBJECT = SubjectTemplate(INTENT_SUBJECT)
_LOOK_S = 0.1
_ASSUMED_AT_ONCE = 5000
"""Pods that one answer to a fence may name; with more it would not fit into a message."""


@dataclass(slots=True)
class IntentHandling:
    """What the intake calls for every batch."""

    gateway: Epoch
    """In whose name outcomes are stored; they count only in its turn."""
    publisher: Publisher
    clock: Clock
    office: DeadLetterOffice
    applier: Applier
    gangs: GangBinder
    leases: LeaseBook
    answered: AnsweredLog
    follows: frozenset[str]
    """Kinds of which all objects become facts: only their versions mean something to a view."""
    announce: Callable[[str, str], None]
    """Told a kind and a version that somebody will wait for."""
    is_leading: Callable[[], bool]

    async def handle(self, batch: Batch[Delivery]) -> None:
        reach(RECEIVED)
        if all(_id_of(item.payload) in self.answered for item in batch.items):
            log.info("intent.repeated", key=batch.key)
            return
        delivery = batch.items[0].payload
        match delivery.intent:
            case UnknownIntent():
                await self._refuse_unknown(delivery, delivery.intent)
            case Fence():
                await self._fence(delivery, delivery.intent)
            case BindGang():
                await self._bind(batch)
            case CreateObject() | PatchObject() | DeleteObject() | EvictPod() | GenerateSecret():
                await self._apply(delivery, delivery.intent)

    def arrived(self, delivery: Delivery) -> None:
        if isinstance(delivery.intent, Fence):
            self.leases.fence_arrived((delivery.intent.service, delivery.intent.shard))

    async def unreadable(self, message: Unreadable, reason: str, *, intent_id: str) -> None:
        await self.office.put_aside(message, reason)
        answer = self._refusal_by_subject(message.subject, intent_id, Reason.UNREADABLE, reason)
        if answer is not None:
            await self._store(answer)

    async def failed(self, batch: Batch[Delivery], problem: Exception) -> None:
        """A mistake of ours: what was done before it is not known."""
        why = f"the gateway failed on it: {problem!r}"
        for item in batch.items:
            await self.office.put_aside(item.payload.source, why)
            intent = item.payload.intent
            match intent:
                case UnknownIntent():
                    pass
                case Fence():
                    await self._refuse(intent, Refusal(Reason.INVALID, why))
                case BindGang():
                    pods = [uncertain(bind, why) for bind in intent.binds]
                    await self._publish(intent, self._gang_bound(intent, pods, 0))
                case _:
                    await self._publish(intent, self._unclear(intent, Unclear(why)))

    # One object.

    async def _apply(self, delivery: Delivery, intent: SingleIntent) -> None:
        permit = self._permit(delivery, intent)
        result = await self._forbidden(delivery, intent)
        if result is None:
            reach(CHECKED)
            result = await self.applier.apply(intent, permit)
            reach(APPLIED)
        match result:
            case Refusal():
                await self._refuse(intent, result)
            case Unclear():
                await self._publish(intent, self._unclear(intent, result))
            case Done():
                await self._publish(intent, self._applied(intent, result))

    def _applied(self, intent: SingleIntent, done: Done) -> Applied:
        version = done.resource_version if intent.kind in self.follows else ""
        if version:
            self.announce(intent.kind, version)
        return Applied(
            **self._answer(intent),
            namespace=intent.namespace,
            name=intent.name,
            uid=done.uid,
            resource_version=version,
            already=done.already,
        )

    def _unclear(self, intent: SingleIntent, unclear: Unclear) -> Uncertain:
        log.warning(
            "intent.uncertain",
            key=intent.key,
            verb=str(intent.verb),
            kind=intent.kind,
            message=unclear.message,
        )
        return Uncertain(
            **self._answer(intent),
            namespace=intent.namespace,
            name=intent.name,
            message=unclear.message,
        )

    def _answer(self, intent: AnyIntent) -> dict[str, Any]:
        """What every outcome of this intent says."""
        return {
            "intent_id": intent.id,
            "service": intent.service,
            "shard": intent.shard,
            "verb": intent.verb,
            "kind": intent.kind,
            "key": intent.key,
            "at": self._now(),
            "cause": intent.id,
            "gateway": self.gateway,
        }

    # A gang.

    async def _bind(self, batch: Batch[Delivery]) -> None:
        parts = [i.payload.intent for i in batch.items if isinstance(i.payload.intent, BindGang)]
        permit = self._permit(batch.items[0].payload, parts[0])
        refusal = None
        for item, part in zip(batch.items, parts, strict=True):
            refusal = refusal or await self._forbidden(item.payload, part)
        uids = [bind.uid for part in parts for bind in part.binds]
        if refusal is None and len(set(uids)) != len(uids):
            refusal = Refusal(Reason.BAD_REQUEST, "a pod stands in two parts of the gang")
        if refusal is not None:
            for part in parts:
                await self._refuse(part, refusal)
            return
        reach(CHECKED)
        if batch.complete:
            results = await self.gangs.bind(parts, permit)
        else:
            have = f"{len(parts)} of {parts[0].parts}"
            late = Refusal(Reason.EXPIRED, f"only {have} parts of the gang arrived in time")
            results = await self.gangs.not_bound(parts, permit, late)
        reach(APPLIED)
        for part, pods, version in results:
            await self._publish(part, self._gang_bound(part, pods, version))

    def _gang_bound(self, part: BindGang, pods: list[PodBound], version: int) -> GangBound:
        if version:
            self.announce(part.kind, str(version))
        return GangBound(
            **self._answer(part),
            namespace=part.namespace,
            name=part.name,
            attempt=part.attempt,
            part=part.part,
            parts=part.parts,
            pods=tuple(pods),
            resource_version=str(version or ""),
        )

    # Fences, and what is refused.

    async def _fence(self, delivery: Delivery, fence: Fence) -> None:
        refusal = check(fence, delivery.source.subject)
        if refusal is not None:
            await self._refuse(fence, refusal)
            return
        sender, source = (fence.service, fence.shard), delivery.source
        found = await self.leases.raise_fence(sender, fence, source.sequence, source.incarnation)
        match found:
            case FenceIs.A_COPY:
                log.info("fence.repeated", key=fence.key)
            case FenceIs.FOREIGN:
                _foreign_fences.add(1, service=fence.service)
                message = f"the lease of {fence.service} does not name this fence: lead first"
                await self._refuse(fence, Refusal(Reason.FENCED, message))
            case FenceIs.RAISED:
                await self._publish(fence, await self._fence_answered(fence, sender))

    async def _fence_answered(self, fence: Fence, sender: Sender) -> FenceAnswered:
        while True:
            assumed = self.answered.assumed(sender)
            if len(assumed) <= _ASSUMED_AT_ONCE:
                break
            await asyncio.sleep(_LOOK_S)  # more and more of them show on STATE
        versions = self.answered.versions(sender)
        for kind, version in versions.items():
            self.announce(kind, version)
        return FenceAnswered(
            **self._answer(fence),
            epoch=fence.epoch,
            versions=versions,
            assumed=assumed,
        )

    async def _forbidden(self, delivery: Delivery, intent: AnyIntent) -> Refusal | None:
        refusal = check(intent, delivery.source.subject)
        if refusal is not None:
            return refusal
        is_heard = await self.leases.accepts(
            (intent.service, intent.shard),
            intent.epoch,
            delivery.source.sequence,
            may_have_begun=delivery.may_have_begun,
        )
        if is_heard:
            return None
        _fenced.add(1, service=intent.service)
        message = f"epoch {intent.epoch} of {intent.service} does not lead: decide no more"
        return Refusal(Reason.FENCED, message)

    async def _refuse_unknown(self, delivery: Delivery, unknown: UnknownIntent) -> None:
        message = f"this gateway does not know the type {unknown.tag!r}"
        await self.office.put_aside(delivery.source, message)
        answer = self._refusal_by_subject(
            delivery.source.subject, unknown.envelope.id, Reason.UNKNOWN_TYPE, message
        )
        if answer is not None:
            shard, key = unknown.envelope.shard, unknown.envelope.key
            await self._store(replace(answer, shard=shard, key=key))

    def _refusal_by_subject(
        self, subject: str, intent_id: str, reason: Reason, message: str
    ) -> Refused | None:
        """The answer to what can't be read, as far as it is known whom to answer."""
        try:
            said = _SUBJECT.parse(subject)
            verb = Verb(said["verb"])
        except (BadSubject, ValueError):
            return None
        if not intent_id:
            return None
        return Refused(
            intent_id=intent_id,
            service=said["service"],
            verb=verb,
            kind=said["kind"],
            key="",
            at=self._now(),
            cause=intent_id,
            gateway=self.gateway,
            reason=reason,
            message=message,
        )

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
        await self._publish(intent, replace(answer, gateway=self.gateway))

    async def _publish(self, intent: AnyIntent, outcome: AnyOutcome) -> None:
        await self._store(outcome)
        _outcomes.add(1, service=intent.service, verb=str(intent.verb), outcome=_word_for(outcome))
        if intent.sent_at:
            _latency.record(max(0.0, self._now() - intent.sent_at), verb=str(intent.verb))

    async def _store(self, outcome: AnyOutcome) -> None:
        """Until it is stored: an intent is not acknowledged before."""
        if outcome.intent_id in self.answered:
            return
        message_id = f"outcome-{self.gateway}-{outcome.intent_id}"
        try:
            await self.publisher.publish_until_acked(
                outcome.subject(), codec.encode(outcome), message_id=message_id
            )
        except MessageTooLarge:
            outcome = _without_words(outcome)
            await self.publisher.publish_until_acked(
                outcome.subject(), codec.encode(outcome), message_id=message_id
            )
        self.answered.note(outcome)

    def _permit(self, delivery: Delivery, intent: AnyIntent) -> Permit:
        until = self.clock.monotonic() + intent.lives_s
        return Permit(self.clock, until, self.is_leading, delivery.may_have_begun)

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _id_of(delivery: Delivery) -> str:
    intent = delivery.intent
    return intent.envelope.id if isinstance(intent, UnknownIntent) else intent.id


def _without_words(outcome: AnyOutcome) -> AnyOutcome:
    """How each pod fared fits into any message; what was said about each may not."""
    if not isinstance(outcome, GangBound):
        return outcome
    first, *others = outcome.pods
    silent = (replace(pod, message="") for pod in others)
    return replace(outcome, pods=(first, *silent))


def _word_for(outcome: AnyOutcome) -> str:
    """For figures."""
    match outcome:
        case Refused():
            return str(outcome.reason)
        case Uncertain():
            return "uncertain"
        case _:
            return "applied"
