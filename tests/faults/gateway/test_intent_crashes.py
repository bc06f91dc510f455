"""The gateway is killed between any two steps of applying an intent; a second one goes on.

Every point that an intent passes, for every verb. Beside or behind the intent that is hit are two
more of the same job. In the end each was answered once and in its order, its effect is there
once (a witness at the API server has seen every version), and nothing was put aside.
"""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from stromboli.api import kinds
from stromboli.contracts.intents import AnyIntent, CreateObject, PatchType
from stromboli.contracts.outcomes import AnyOutcome, Applied, GangBound
from stromboli.kube import wire
from stromboli.testkit.aftermath import answered_in_order, no_dead_letters
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import until_equal
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder, owned_by, pod_manifest
from stromboli.testkit.witness import Witness, witnessing

pytestmark = [pytest.mark.nats, pytest.mark.faults]

SINGLE = (
    "gateway.intent.received",
    "gateway.intent.checked",
    "gateway.intent.applied",
    "bus.intent.answered",
)
GANG = (
    "gateway.intent.received",
    "gateway.intent.checked",
    "gateway.gang.checked",
    "gateway.pod.bound:1",
    "gateway.pod.bound:2",
    "gateway.intent.applied",
    "bus.intent.answered",
)


@dataclass
class Plan:
    """The intent to be hit, its successors, and what must have happened exactly once."""

    intents: list[AnyIntent]
    check: Callable[[Witness, list[AnyOutcome]], None]


async def create(peer: BusPeer, cluster: ClusterBuilder) -> Plan:
    job = await cluster.job("job")

    def a_pod(name: str) -> CreateObject:
        manifest = owned_by(pod_manifest(name, namespace=cluster.namespace), job, kinds.VC_JOB)
        return peer.create("pod", manifest, owner_uid=job.uid)

    def check(witness: Witness, answers: list[AnyOutcome]) -> None:
        for name, answer in zip(("first", "second", "third"), answers, strict=True):
            assert isinstance(answer, Applied)
            assert witness.lives(name) == [answer.uid]
            assert witness.ends(name) == []

    return Plan([a_pod("first"), a_pod("second"), a_pod("third")], check)


async def patch(peer: BusPeer, cluster: ClusterBuilder) -> Plan:
    pod = await cluster.pod("victim")
    steps = ["1", "2", "3"]
    intents: list[AnyIntent] = [
        peer.patch(
            "pod",
            cluster.namespace,
            "victim",
            uid=pod.uid,
            body={"metadata": {"annotations": {"step": step}}},
        )
        for step in steps
    ]

    def check(witness: Witness, answers: list[AnyOutcome]) -> None:
        assert all(isinstance(answer, Applied) for answer in answers)
        assert witness.values("victim", "step") == steps
        assert len(witness.of("victim")) == 1 + len(steps)

    return Plan(intents, check)


async def edit(peer: BusPeer, cluster: ClusterBuilder) -> Plan:
    """JSON patches: a second time, what they test and remove is not there any more."""
    pod = await cluster.pod("victim")
    first = {"op": "add", "path": "/metadata/annotations", "value": {"step": "1", "mark": "x"}}
    test = {"op": "test", "path": "/metadata/annotations/mark", "value": "x"}
    remove = {"op": "remove", "path": "/metadata/annotations/mark"}
    second = {"op": "replace", "path": "/metadata/annotations/step", "value": "2"}
    third = {"op": "replace", "path": "/metadata/annotations/step", "value": "3"}
    await cluster.kube.patch(
        kinds.POD,
        cluster.namespace,
        "victim",
        [first],
        patch_type=wire.PatchType.JSON,
        field_manager="testkit",
    )
    intents: list[AnyIntent] = [
        peer.patch(
            "pod",
            cluster.namespace,
            "victim",
            uid=pod.uid,
            body=body,
            patch_type=PatchType.JSON,
        )
        for body in ([test, remove, second], [third])
    ]

    def check(witness: Witness, answers: list[AnyOutcome]) -> None:
        assert all(isinstance(answer, Applied) for answer in answers), answers
        assert witness.values("victim", "step") == ["1", "2", "3"]
        assert [v.annotation("mark") for v in witness.of("victim")] == ["x", None, None]

    return Plan(intents, check)


async def delete(peer: BusPeer, cluster: ClusterBuilder) -> Plan:
    """The name is taken again at once: its new owner must survive the old one's deletion."""
    job = await cluster.job("job")
    manifest = owned_by(pod_manifest("victim", namespace=cluster.namespace), job, kinds.VC_JOB)
    pod = await cluster.make("pod", manifest)
    intents: list[AnyIntent] = [
        peer.delete("pod", cluster.namespace, "victim", uid=pod.uid),
        peer.create("pod", manifest, owner_uid=job.uid),
        peer.delete("pod", cluster.namespace, "victim", uid=pod.uid),
    ]

    def check(witness: Witness, answers: list[AnyOutcome]) -> None:
        second = answers[1]
        assert isinstance(second, Applied)
        assert witness.lives("victim") == [pod.uid, second.uid]
        assert witness.ends("victim") == [pod.uid]

    return Plan(intents, check)


async def evict(peer: BusPeer, cluster: ClusterBuilder) -> Plan:
    pods = [await cluster.pod(name) for name in ("first", "second", "third")]

    def check(witness: Witness, answers: list[AnyOutcome]) -> None:
        assert all(isinstance(answer, Applied) for answer in answers)
        for pod in pods:
            assert witness.lives(pod.name) == [pod.uid]
            assert witness.ends(pod.name) == [pod.uid]

    return Plan([peer.evict(cluster.namespace, p.name, uid=p.uid) for p in pods], check)


async def bind(peer: BusPeer, cluster: ClusterBuilder) -> Plan:
    """A gang of three; its successors are a gang of two and one more attempt at the first."""
    node, other = await cluster.node(), await cluster.node()
    pods = [await cluster.pod(f"gang-{number}") for number in range(5)]
    first = [(pod.name, pod.uid, node) for pod in pods[:3]]
    second = [(pod.name, pod.uid, other) for pod in pods[3:]]
    intents: list[AnyIntent] = [
        peer.bind(cluster.namespace, "job", first),
        peer.bind(cluster.namespace, "job", second, attempt="2"),
        peer.bind(cluster.namespace, "job", first, attempt="3"),
    ]

    def check(witness: Witness, answers: list[AnyOutcome]) -> None:
        for answer in answers:
            assert isinstance(answer, GangBound)
            assert all(pod.bound for pod in answer.pods), answer
        assert [witness.placements(pod.name) for pod in pods] == [[node]] * 3 + [[other]] * 2

    return Plan(intents, check)


MakePlan = Callable[[BusPeer, ClusterBuilder], Awaitable[Plan]]
CASES = [
    *((point, "controllers", make) for make in (create, patch, delete) for point in SINGLE),
    ("gateway.intent.applied", "controllers", edit),
    *((point, "scheduler", evict) for point in SINGLE),
    *((point, "scheduler", bind) for point in GANG),
]


@pytest.mark.parametrize(
    ("point", "service", "make_plan"),
    [pytest.param(*case, id=f"{case[2].__name__}-{case[0]}") for case in CASES],
)
async def test_an_intent_is_applied_and_answered_once_wherever_the_gateway_dies(
    start_gateway: Callable[..., GatewayProcess],
    join: Callable[..., Awaitable[BusPeer]],
    cluster: ClusterBuilder,
    point: str,
    service: str,
    make_plan: MakePlan,
):
    doomed = start_gateway(crash_at=point)
    peer = await join(service)
    plan = await make_plan(peer, cluster)
    async with witnessing(cluster.kube, cluster.namespace) as witness:
        for intent in plan.intents:
            await peer.ask(intent)
        assert await doomed.wait() == -signal.SIGKILL
        start_gateway()

        answers = await answered_in_order(peer, plan.intents)
        await until_equal(peer, kube=cluster.kube)
    plan.check(witness, answers)
    await no_dead_letters(peer)
