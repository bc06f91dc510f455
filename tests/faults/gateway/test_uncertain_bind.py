"""A bind of which the gateway hears nothing: it never says "not bound" of what may be bound."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.epochs import NO_EPOCH, Epoch
from stromboli.contracts.intents import CONTRACT, AnyIntent, BindGang, Fence, PodBinding
from stromboli.contracts.leases import LeaseValue, lease_subject
from stromboli.contracts.outcomes import (
    AnyOutcome,
    AssumedPod,
    FenceAnswered,
    GangBound,
    OutcomeLog,
    PodBound,
)
from stromboli.contracts.streams import INTENT, LEASES, OUTCOME, STREAMS
from stromboli.kube.wire import Written
from stromboli.runtime.bus.leases import held_lease
from stromboli.runtime.bus.reader import LogMessage, LogPosition, LogReader
from stromboli.runtime.bus.streams import wait_for
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_fixtures import Bus
from stromboli.testkit.bus_fixtures import join as join_bus
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.lossy_api import Losing, LossyApi
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults]

StartGateway = Callable[..., GatewayProcess]


@dataclass
class Scheduler:
    """A scheduler's side of the bus, message by message."""

    bus: Bus
    namespace: str
    answers: dict[str, AnyOutcome] = field(default_factory=dict[str, AnyOutcome])
    epoch: Epoch = NO_EPOCH
    _asked: int = 0
    _log: OutcomeLog = field(default_factory=OutcomeLog)

    def attach(self, position: LogPosition) -> int:
        self._log.clear()
        return 1

    def apply(self, message: LogMessage) -> None:
        outcome = self._log.counting(codec.outcomes.decode(message.payload))
        if outcome is not None:
            assert outcome.intent_id not in self.answers, "it was answered twice"
            self.answers[outcome.intent_id] = outcome

    def caught_up(self) -> None: ...

    async def takes_over(self) -> FenceAnswered:
        """As a new leader: the lease, the fence, the fence's place in the lease, the answer."""
        subject = lease_subject("scheduler")
        await self._write_lease(LeaseValue("test", "test"))
        stored = await self.bus.jetstream.last_message(LEASES.name, subject)
        bucket = await self.bus.jetstream.stream_info(LEASES.name)
        assert stored is not None
        held = held_lease(stored, bucket.created)
        assert held is not None
        self.epoch = held.epoch
        fence = Fence(
            id=f"fence-{self.epoch}",
            key="fence/scheduler/-",
            service="scheduler",
            epoch=self.epoch,
            contract=CONTRACT,
        )
        sequence = await self._store(fence)
        created = (await self.bus.jetstream.stream_info(INTENT.name)).created
        await self._write_lease(LeaseValue("test", "test", self.epoch.revision, created, sequence))
        answer = await self._answer_to(fence)
        assert isinstance(answer, FenceAnswered)
        return answer

    async def binds(self, node: str, pod: Written, *, lives_s: float = 2.0) -> GangBound:
        self._asked += 1
        gang = BindGang(
            id=f"bind-{self._asked}",
            key=f"vcjob/{self.namespace}/job",
            service="scheduler",
            epoch=self.epoch,
            lives_s=lives_s,
            namespace=self.namespace,
            name="group",
            attempt=str(self._asked),
            binds=(PodBinding(pod.name, pod.uid, node),),
        )
        await self._store(gang)
        answer = await self._answer_to(gang)
        assert isinstance(answer, GangBound)
        return answer

    async def _store(self, intent: AnyIntent) -> int:
        ack = await self.bus.publisher.publish(
            intent.subject(), codec.encode(intent), message_id=intent.id
        )
        return ack.seq

    async def _answer_to(self, intent: AnyIntent) -> AnyOutcome:
        await eventually(
            lambda: intent.id in self.answers, deadline_s=30, describe=f"the answer to {intent.id}"
        )
        return self.answers[intent.id]

    async def _write_lease(self, value: LeaseValue) -> None:
        await self.bus.publisher.publish(lease_subject("scheduler"), msgspec.json.encode(value))


@pytest.fixture
async def lossy(api_server: ApiServer, tmp_path: Path) -> AsyncIterator[LossyApi]:
    async with LossyApi(tmp_path, api_server.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def gateway(start_gateway: StartGateway, lossy: LossyApi) -> GatewayProcess:
    return start_gateway(kubeconfig=lossy.kubeconfig)


@pytest.fixture
async def scheduler(
    nats_server: NatsServer, gateway: GatewayProcess, namespace: str
) -> AsyncIterator[Scheduler]:
    """It leads, and the gateway works for it through the proxy."""
    async with join_bus(nats_server, "scheduler") as bus:
        await wait_for(bus.jetstream, STREAMS)
        scheduler = Scheduler(bus, namespace)
        reader = LogReader(
            bus.connection,
            bus.clock,
            stream=OUTCOME.name,
            filters=["vc.outcome.scheduler.>"],
            listener=scheduler,
        )
        async with background(reader.run()):
            assert (await scheduler.takes_over()).assumed == ()
            yield scheduler


def only(answer: GangBound) -> PodBound:
    (pod,) = answer.pods
    return pod


async def node_of(cluster: ClusterBuilder, name: str) -> str:
    pod = await cluster.fetch("pod", name)
    assert pod is not None
    return pod["spec"].get("nodeName", "")


async def test_a_bind_that_was_executed_without_an_answer_is_reported_as_bound(
    scheduler: Scheduler, lossy: LossyApi, cluster: ClusterBuilder
):
    node, pod = await cluster.node(), await cluster.pod("a")
    lossy.lose("/pods/a/binding", Losing.ANSWER)

    answer = await scheduler.binds(node, pod)

    assert lossy.lost
    assert await node_of(cluster, "a") == node
    assert only(answer).bound
    assert not only(answer).uncertain
    placed = await cluster.fetch("pod", "a")
    assert placed is not None
    assert int(answer.resource_version) <= int(placed["metadata"]["resourceVersion"])
    assert (await scheduler.takes_over()).assumed == ()


async def test_a_bind_that_got_lost_is_uncertain_until_it_is_asked_for_again(
    scheduler: Scheduler, lossy: LossyApi, cluster: ClusterBuilder
):
    node, pod = await cluster.node(), await cluster.pod("a")
    lossy.lose("/pods/a/binding", Losing.REQUEST)

    answer = await scheduler.binds(node, pod)

    assert only(answer).uncertain
    assert not only(answer).bound
    assumed = AssumedPod(scheduler.namespace, "a", pod.uid, node)
    assert (await scheduler.takes_over()).assumed == (assumed,)

    lossy.lose_nothing()
    again = await scheduler.binds(node, pod, lives_s=20)

    assert only(again).bound
    assert await node_of(cluster, "a") == node
    answered = await scheduler.takes_over()
    assert answered.assumed == ()
    assert answered.versions["pod"] == again.resource_version


async def test_an_uncertain_pod_that_is_placed_after_all_is_certain_for_the_next_leader(
    scheduler: Scheduler, lossy: LossyApi, cluster: ClusterBuilder
):
    """The API server executes the request a while after it was given up."""
    node, pod = await cluster.node(), await cluster.pod("a")
    lossy.lose("/pods/a/binding", Losing.REQUEST)
    assert only(await scheduler.binds(node, pod)).uncertain

    await cluster.kube.bind(scheduler.namespace, "a", uid=pod.uid, node=node)

    async def is_settled() -> bool:
        return (await scheduler.takes_over()).assumed == ()

    await eventually(is_settled, deadline_s=20, describe="the gateway to see the pod placed")


async def test_an_uncertain_pod_outlives_its_gateway(
    scheduler: Scheduler,
    lossy: LossyApi,
    cluster: ClusterBuilder,
    gateway: GatewayProcess,
    start_gateway: StartGateway,
):
    node, pod = await cluster.node(), await cluster.pod("a")
    lossy.lose("/pods/a/binding", Losing.REQUEST)
    assert only(await scheduler.binds(node, pod)).uncertain

    gateway.kill()
    start_gateway(kubeconfig=lossy.kubeconfig)

    assumed = AssumedPod(scheduler.namespace, "a", pod.uid, node)
    assert (await scheduler.takes_over()).assumed == (assumed,)
