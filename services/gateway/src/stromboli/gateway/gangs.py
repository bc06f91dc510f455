"""Bind a gang: check all of it before the first bind, then bind, and say how each pod fared.

Kubernetes has no transaction over pods. The check makes the usual failures (a pod replaced or
deleted, a node gone) cost nothing; what fails after it is reported per pod, and the scheduler
decides about the rest. A pod that stands on its node already counts as bound, because the
gateway may have been killed halfway through.

A bind is answered without a version, and views are to know from which on they show it. So a gang is
reported when the watch has shown its pods on their nodes, which takes a moment.

A request that nobody answered may be executed up to a minute later. So a pod that was asked for
once without an answer is *uncertain* until the API server shows it on a node, or gone: the
scheduler keeps its room.
"""

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from stromboli.api import kinds
from stromboli.contracts.intents import BindGang, PodBinding
from stromboli.contracts.outcomes import PodBound, Reason
from stromboli.gateway.attempts import Expired, refusal_of, until_final
from stromboli.gateway.deadlines import NoLongerLeading, Permit
from stromboli.gateway.placing import Places, PodPlace, read_place
from stromboli.gateway.refusals import Refusal
from stromboli.kube.client import KubeClient
from stromboli.kube.errors import ApiError, KubeError, NotFound
from stromboli.runtime.clock import Clock
from stromboli.runtime.crashpoints import declare, reach

CHECKED = declare("gateway.gang.checked", "every pod of the gang passed, none is bound yet")
BOUND = declare("gateway.pod.bound", "one more pod of a gang is bound, nothing is reported yet")

_POD = kinds.by_token("pod")
_NODE = kinds.by_token("node")

_AT_ONCE = 32
_LOOK_S = 3.0
"""So long we ask where a pod is of which nobody knows whether it was bound."""

_SHOWN_S = 1.0
"""So long we wait for the watch to show a pod that is bound, before we ask."""

Fared = tuple[PodBound, int]
"""How a pod fared, and, if it is bound, a version in which it is on its node."""
Results = list[tuple[BindGang, list[PodBound], int]]
"""Per part, how each pod fared, and the highest of these versions."""
_PerPod = Callable[[str, PodBinding], Coroutine[Any, Any, Fared]]


@dataclass(slots=True)
class GangBinder:
    """Binds all parts of one gang."""

    kube: KubeClient
    places: Places
    rng: random.Random
    clock: Clock
    is_uncertain: Callable[[str], bool]
    """Was a bind of the pod with this uid asked for before, and is its end not known?"""

    async def bind(self, parts: Sequence[BindGang], permit: Permit) -> Results:
        """How every pod of every part fared; none is bound unless all pass the check."""
        try:
            problems = await self._check(parts, permit)
        except Expired as late:
            return await self.not_bound(parts, permit, Refusal(Reason.EXPIRED, str(late)))
        except ApiError as error:
            # Not allowed to look, say. Nothing was begun.
            return await self.not_bound(parts, permit, refusal_of(error))
        if problems:
            first = next(iter(problems.values()))
            rest = Refusal(Reason.STALE, f"the gang was not bound: {first.message}")
            return await self.not_bound(parts, permit, rest, problems)
        reach(CHECKED)
        return await self._each(parts, lambda space, bind: self._bind_one(space, bind, permit))

    async def not_bound(
        self,
        parts: Sequence[BindGang],
        permit: Permit,
        refusal: Refusal,
        problems: Mapping[str, Refusal] = MappingProxyType({}),
    ) -> Results:
        """Nothing is bound; but it is said of each pod what is so, if it was begun before."""

        async def one(namespace: str, bind: PodBinding) -> Fared:
            why = problems.get(bind.uid, refusal)
            if self._is_on_its_node(namespace, bind):
                return _bound(bind, already=True), 0
            if permit.may_have_begun or self.is_uncertain(bind.uid):
                return await self._what_became(namespace, bind, permit, why, in_doubt=True)
            return _failed(bind, why), 0

        return await self._each(parts, one)

    async def _each(self, parts: Sequence[BindGang], work: _PerPod) -> Results:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(namespace: str, bind: PodBinding) -> Fared:
            async with slots:
                pod, version = await work(namespace, bind)
            if pod.bound and not version:
                pod, version = await self._shown(namespace, bind, pod)
            return pod, version

        results: Results = []
        for part in parts:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(part.namespace, bind)) for bind in part.binds]
            except ExceptionGroup as problems:
                # One stands for all: whoever called knows what a lost lease means, not a group.
                lost, others = problems.split(NoLongerLeading)
                raise (lost or others or problems).exceptions[0] from problems
            fared = [task.result() for task in tasks]
            newest = max((version for _, version in fared), default=0)
            results.append((part, [pod for pod, _ in fared], newest))
        return results

    # The check.

    async def _check(self, parts: Sequence[BindGang], permit: Permit) -> dict[str, Refusal]:
        """Per pod uid, why it can't be bound."""
        problems: dict[str, Refusal] = {}
        unseen = sorted({b.node for part in parts for b in part.binds} - self.places.nodes)
        gone_nodes = {node for node in unseen if not await self._node_exists(node, permit)}
        for part in parts:
            for bind in part.binds:
                refusal = await self._check_one(part.namespace, bind, gone_nodes, permit)
                if refusal is not None:
                    problems[bind.uid] = refusal
        return problems

    async def _check_one(
        self, namespace: str, bind: PodBinding, gone_nodes: set[str], permit: Permit
    ) -> Refusal | None:
        if bind.node in gone_nodes:
            return Refusal(Reason.NOT_FOUND, f"node {bind.node} does not exist")
        place = self.places.pods.get((namespace, bind.name))
        if place is None or place.uid != bind.uid:
            # The watch may lag behind a pod that was just created: ask.
            place = await self._fetch_place(namespace, bind.name, permit)
        return _obstacle(namespace, bind, place)

    async def _node_exists(self, name: str, permit: Permit) -> bool:
        try:
            await until_final(
                lambda limit_s: self.kube.get(_NODE, None, name, timeout_s=limit_s),
                permit,
                self.rng,
            )
        except NotFound:
            return False
        self.places.nodes.add(name)  # the watch tells when it goes
        return True

    # One pod.

    async def _bind_one(self, namespace: str, bind: PodBinding, permit: Permit) -> Fared:
        if self._is_on_its_node(namespace, bind):
            return _bound(bind, already=True), 0
        if self.is_uncertain(bind.uid):
            permit = replace(permit, may_have_begun=True)
        try:
            await until_final(
                lambda limit_s: self.kube.bind(
                    namespace, bind.name, uid=bind.uid, node=bind.node, timeout_s=limit_s
                ),
                permit,
                self.rng,
            )
        except ApiError as error:
            # A refused bind may be our own earlier one; the pod knows.
            return await self._what_became(
                namespace, bind, permit, refusal_of(error), in_doubt=error.maybe_applied
            )
        except Expired as late:
            refusal = Refusal(Reason.EXPIRED, str(late))
            return await self._what_became(
                namespace, bind, permit, refusal, in_doubt=late.maybe_applied
            )
        reach(BOUND)
        return _bound(bind), 0

    async def _shown(self, namespace: str, bind: PodBinding, pod: PodBound) -> Fared:
        """A version from which on it is on its node. Without one, it is as good as uncertain."""
        version = await self.places.wait_for((namespace, bind.name), bind.uid, _SHOWN_S)
        if version:
            return pod, version
        forever = Permit(self.clock, math.inf, is_leading=lambda: True)
        unknown = Refusal(Reason.EXPIRED, "it was bound, and nobody says what became of it")
        found, version = await self._what_became(namespace, bind, forever, unknown, in_doubt=True)
        return (pod, version) if found.bound else (found, 0)

    async def _what_became(
        self,
        namespace: str,
        bind: PodBinding,
        permit: Permit,
        refusal: Refusal,
        *,
        in_doubt: bool,
    ) -> Fared:
        """Where the pod is now. On its node or elsewhere, or gone, is certain; nowhere is not."""
        until = self.clock.monotonic() + _LOOK_S
        try:
            place = await self._fetch_place(namespace, bind.name, replace(permit, until=until))
        except (Expired, KubeError):
            return (uncertain(bind, refusal.message) if in_doubt else _failed(bind, refusal)), 0
        if place is not None and place.uid == bind.uid and place.node == bind.node:
            return _bound(bind, already=True), place.version
        obstacle = _obstacle(namespace, bind, place)
        if obstacle is None and in_doubt:
            return uncertain(bind, refusal.message), 0
        return _failed(bind, obstacle or refusal), 0

    def _is_on_its_node(self, namespace: str, bind: PodBinding) -> bool:
        """Has the watch shown it there?"""
        place = self.places.pods.get((namespace, bind.name))
        return place is not None and place.uid == bind.uid and place.node == bind.node

    async def _fetch_place(self, namespace: str, name: str, permit: Permit) -> PodPlace | None:
        raw = await until_final(
            lambda limit_s: self.kube.get_or_none(_POD, namespace, name, timeout_s=limit_s),
            permit,
            self.rng,
        )
        return None if raw is None else read_place(raw)


def _obstacle(namespace: str, bind: PodBinding, place: PodPlace | None) -> Refusal | None:
    """Why a pod that is there, or is not, can't be bound, now or later."""
    if place is None:
        return Refusal(Reason.NOT_FOUND, f"pod {namespace}/{bind.name} does not exist")
    if place.uid != bind.uid:
        return Refusal(Reason.STALE, f"pod {bind.name} is {place.uid}, not {bind.uid}")
    if place.node not in {"", bind.node}:
        return Refusal(Reason.STALE, f"pod {bind.name} is on node {place.node} already")
    if place.ending and not place.node:
        return Refusal(Reason.STALE, f"pod {bind.name} is ending")
    return None


def _bound(bind: PodBinding, *, already: bool = False) -> PodBound:
    return PodBound(name=bind.name, uid=bind.uid, node=bind.node, bound=True, already=already)


def uncertain(bind: PodBinding, message: str) -> PodBound:
    """It may be bound, or may still be."""
    return PodBound(
        name=bind.name,
        uid=bind.uid,
        node=bind.node,
        bound=False,
        uncertain=True,
        message=message,
    )


def _failed(bind: PodBinding, refusal: Refusal) -> PodBound:
    return PodBound(
        name=bind.name,
        uid=bind.uid,
        node=bind.node,
        bound=False,
        reason=refusal.reason,
        message=refusal.message,
    )
