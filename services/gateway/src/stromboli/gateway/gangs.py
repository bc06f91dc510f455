"""Bind a gang: check all of it before the first bind, then bind, and say how each pod fared.

Kubernetes has no transaction over pods. The check makes the usual failures (a pod replaced or
deleted, a node gone) cost nothing; what fails after it is reported per pod, and the scheduler
decides about the rest. A pod that stands on its node already counts as bound, because the
gateway may have been killed halfway through.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from stromboli.api import kinds
from stromboli.contracts.intents import BindGang, PodBinding
from stromboli.contracts.outcomes import PodBound, Reason
from stromboli.gateway.attempts import Expired, refusal_of, until_final
from stromboli.gateway.deadlines import NoLongerLeading, Permit
from stromboli.gateway.placing import Places, PodPlace, read_place
from stromboli.gateway.refusals import Refusal
from stromboli.kube.client import KubeClient
from stromboli.kube.errors import ApiError, Conflict, NotFound
from stromboli.runtime.crashpoints import declare, reach

CHECKED = declare("gateway.gang.checked", "every pod of the gang passed, none is bound yet")
BOUND = declare("gateway.pod.bound", "one more pod of a gang is bound, nothing is reported yet")

_POD = kinds.by_token("pod")
_NODE = kinds.by_token("node")

_AT_ONCE = 32


@dataclass(slots=True)
class GangBinder:
    """Binds all parts of one gang."""

    kube: KubeClient
    places: Places
    rng: random.Random

    async def bind(
        self, parts: Sequence[BindGang], permit: Permit
    ) -> list[tuple[BindGang, list[PodBound]]]:
        """How every pod of every part fared; none is bound unless all pass the check."""
        problems = await self._check(parts, permit)
        if problems:
            return [(part, _not_bound(part, problems)) for part in parts]
        reach(CHECKED)
        slots = asyncio.Semaphore(_AT_ONCE)
        results: list[tuple[BindGang, list[PodBound]]] = []
        for part in parts:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._bind_one(part.namespace, bind, permit, slots))
                        for bind in part.binds
                    ]
            except ExceptionGroup as problems:
                # One stands for all: whoever called knows what a lost lease means, not a group.
                lost, others = problems.split(NoLongerLeading)
                raise (lost or others or problems).exceptions[0] from problems
            results.append((part, [task.result() for task in tasks]))
        return results

    async def _check(self, parts: Sequence[BindGang], permit: Permit) -> dict[str, Refusal]:
        """Per pod uid, why it can't be bound."""
        problems: dict[str, Refusal] = {}
        missing = sorted({b.node for part in parts for b in part.binds} - self.places.nodes)
        gone_nodes = {node for node in missing if not await self._node_exists(node, permit)}
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
        if place is None:
            return Refusal(Reason.NOT_FOUND, f"pod {namespace}/{bind.name} does not exist")
        if place.uid != bind.uid:
            return Refusal(Reason.STALE, f"pod {bind.name} is {place.uid}, not {bind.uid}")
        if place.node not in {"", bind.node}:
            return Refusal(Reason.STALE, f"pod {bind.name} is on node {place.node} already")
        if place.ending and not place.node:
            return Refusal(Reason.STALE, f"pod {bind.name} is ending")
        return None

    async def _bind_one(
        self, namespace: str, bind: PodBinding, permit: Permit, slots: asyncio.Semaphore
    ) -> PodBound:
        async with slots:
            place = self.places.pods.get((namespace, bind.name))
            if place is not None and place.uid == bind.uid and place.node == bind.node:
                return _bound(bind, already=True)
            try:
                await until_final(
                    lambda limit_s: self.kube.bind(
                        namespace, bind.name, uid=bind.uid, node=bind.node, timeout_s=limit_s
                    ),
                    permit,
                    self.rng,
                )
            except Conflict as conflict:
                return await self._bound_already(namespace, bind, conflict, permit)
            except ApiError as error:
                return _failed(bind, refusal_of(error))
            except Expired as late:
                return _failed(bind, Refusal(Reason.EXPIRED, str(late)))
        reach(BOUND)
        return _bound(bind)

    async def _bound_already(
        self, namespace: str, bind: PodBinding, conflict: Conflict, permit: Permit
    ) -> PodBound:
        """A refused bind may be our own earlier one; the pod knows."""
        try:
            place = await self._fetch_place(namespace, bind.name, permit)
        except Expired as late:
            return _failed(bind, Refusal(Reason.EXPIRED, str(late)))
        if place is not None and place.uid == bind.uid and place.node == bind.node:
            return _bound(bind, already=True)
        return _failed(bind, Refusal(Reason.STALE, str(conflict)))

    async def _fetch_place(self, namespace: str, name: str, permit: Permit) -> PodPlace | None:
        raw = await until_final(
            lambda limit_s: self.kube.get_or_none(_POD, namespace, name, timeout_s=limit_s),
            permit,
            self.rng,
        )
        return None if raw is None else read_place(raw)

    async def _node_exists(self, name: str, permit: Permit) -> bool:
        try:
            await until_final(
                lambda limit_s: self.kube.get(_NODE, None, name, timeout_s=limit_s),
                permit,
                self.rng,
            )
        except NotFound:
            return False
        return True


def _not_bound(part: BindGang, problems: dict[str, Refusal]) -> list[PodBound]:
    first = next(iter(problems.values()))
    rest = Refusal(Reason.STALE, f"the gang was not bound: {first.message}")
    return [_failed(bind, problems.get(bind.uid, rest)) for bind in part.binds]


def _bound(bind: PodBinding, *, already: bool = False) -> PodBound:
    return PodBound(name=bind.name, uid=bind.uid, node=bind.node, bound=True, already=already)


def _failed(bind: PodBinding, refusal: Refusal) -> PodBound:
    return PodBound(
        name=bind.name,
        uid=bind.uid,
        node=bind.node,
        bound=False,
        reason=refusal.reason,
        message=refusal.message,
    )
