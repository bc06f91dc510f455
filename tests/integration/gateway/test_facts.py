from collections.abc import Callable

import msgspec
import pytest

from stromboli.api import kinds
from stromboli.contracts import codec
from stromboli.contracts.facts import TOMBSTONE_LIFE_S, ObjectGone
from stromboli.contracts.streams import JOURNAL, STATE
from stromboli.kube.wire import PatchType
from stromboli.runtime.bus.errors import JetStreamError
from stromboli.runtime.bus.publisher import MESSAGE_TTL
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_contents import stored_messages
from stromboli.testkit.bus_fixtures import join
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


async def test_an_object_becomes_a_fact_with_its_uid_and_projection(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    pod = await cluster.pod("one")

    entry = await scheduler.until_seen("pod", cluster.namespace, "one")
    assert entry.uid == pod.uid
    assert entry.resource_version == pod.resource_version
    assert entry.object.spec.scheduler_name == "volcano"


async def test_a_change_becomes_a_new_fact_and_a_deletion_ends_it(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    await cluster.pod("one")
    await scheduler.until_seen("pod", cluster.namespace, "one")

    await cluster.label("pod", "one", colour="red")
    await eventually(
        lambda: (
            scheduler.view.objects("pod")[cluster.namespace, "one"].object.metadata.labels.get(
                "colour"
            )
            == "red"
        ),
        describe="the label is in the view",
    )
    await cluster.delete("pod", "one")
    await eventually(
        lambda: scheduler.view.get("pod", cluster.namespace, "one") is None,
        describe="the pod is gone from the view",
    )


async def test_the_end_of_a_pod_is_small_and_its_reader_knows_the_whole_pod_all_the_same(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    await cluster.pod("one")
    known = await scheduler.until_seen("pod", cluster.namespace, "one")
    await cluster.delete("pod", "one")
    await eventually(
        lambda: scheduler.view.get("pod", cluster.namespace, "one") is None,
        describe="the pod is gone from the view",
    )

    stored = await scheduler.jetstream.last_message(
        STATE.name, f"vc.state.pod.{cluster.namespace}.one"
    )
    assert stored is not None
    fact = codec.facts.decode(stored.payload)
    assert isinstance(fact, ObjectGone)
    assert msgspec.msgpack.decode(fact.projection).keys() == {"metadata", "status"}
    assert stored.headers[MESSAGE_TTL] == f"{TOMBSTONE_LIFE_S}s"
    (ended,) = [d.ended for d in scheduler.deltas if d.name == "one" and d.ended is not None]
    assert ended.object.spec == known.object.spec
    assert scheduler.unreadable_facts == []


async def test_objects_that_were_there_before_the_gateway_are_facts_too(
    cluster: ClusterBuilder, start_gateway: Callable[[], GatewayProcess], nats_server: NatsServer
):
    queue = await cluster.queue()
    await cluster.job("early")
    gateway = start_gateway()
    await gateway.until_ready()

    async with BusPeer("scheduler", nats_server.url) as late:
        await late.until_synced()

        assert late.view.get("queue", "", queue) is not None
        assert late.view.get("vcjob", cluster.namespace, "early") is not None


async def test_a_change_that_no_projection_shows_makes_no_fact(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    await cluster.pod("quiet")
    entry = await scheduler.until_seen("pod", cluster.namespace, "quiet")
    await cluster.kube.patch(
        kinds.POD,
        cluster.namespace,
        "quiet",
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}},
        patch_type=PatchType.MERGE,
        field_manager="testkit",
    )
    await cluster.pod("after")
    await scheduler.until_seen("pod", cluster.namespace, "after")

    same = scheduler.view.get("pod", cluster.namespace, "quiet")
    assert same is not None
    assert same.sequence == entry.sequence


async def test_a_replaced_object_is_the_end_of_one_and_the_beginning_of_another(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    first = await cluster.pod("twin")
    await scheduler.until_seen("pod", cluster.namespace, "twin")
    await cluster.delete("pod", "twin")
    second = await cluster.pod("twin")
    await eventually(
        lambda: (
            (e := scheduler.view.get("pod", cluster.namespace, "twin")) is not None
            and e.uid == second.uid
        ),
        describe="the second twin",
    )

    story = [
        (d.old.uid if d.old else None, d.new.uid if d.new else None)
        for d in scheduler.deltas
        if (d.namespace, d.name) == (cluster.namespace, "twin") and (d.old is None or d.new is None)
    ]
    assert story == [(None, first.uid), (first.uid, None), (None, second.uid)]


async def label_five_times(scheduler: BusPeer, cluster: ClusterBuilder) -> None:
    """A pod, and five changes of it, each seen by the view before the next is made."""
    await cluster.pod("busy")
    await scheduler.until_seen("pod", cluster.namespace, "busy")
    for number in range(5):
        await cluster.label("pod", "busy", number=str(number))
        await eventually(lambda n=str(number): _label(scheduler, cluster) == n, describe="a label")


def _label(scheduler: BusPeer, cluster: ClusterBuilder) -> str | None:
    pod = scheduler.view.objects("pod")[cluster.namespace, "busy"].object
    return pod.metadata.labels.get("number")


async def test_state_keeps_one_message_per_object_and_nothing_is_recorded_unasked(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    await label_five_times(scheduler, cluster)

    subject = f"vc.state.pod.{cluster.namespace}.busy"
    assert await scheduler.jetstream.subjects(STATE.name, subject) == {subject}
    with pytest.raises(JetStreamError, match="stream not found"):
        await scheduler.jetstream.stream_info(JOURNAL.name)


async def test_a_gateway_that_is_told_to_records_every_fact(
    start_gateway: Callable[..., GatewayProcess], nats_server: NatsServer, cluster: ClusterBuilder
):
    gateway = start_gateway(env={"STROMBOLI_GATEWAY_JOURNAL": "true"})
    await gateway.until_ready()
    async with BusPeer("scheduler", nats_server.url) as scheduler:
        await scheduler.until_synced()
        await label_five_times(scheduler, cluster)

        async def all_recorded() -> bool:
            noted = await stored_messages(
                scheduler.connection, JOURNAL.name, f"vc.journal.pod.{cluster.namespace}.busy"
            )
            return len(noted) == 6

        await eventually(all_recorded, describe="the pod and its five changes in JOURNAL")


async def test_a_journal_that_is_no_longer_wanted_is_left_alone(
    nats_server: NatsServer, start_gateway: Callable[..., GatewayProcess]
):
    async with join(nats_server) as bus:
        await reconcile(bus.jetstream, [JOURNAL])
        await bus.publisher.publish("vc.journal.pod.ns.a", b"recorded")

        gateway = start_gateway()
        await gateway.until_ready()

        assert await bus.messages(JOURNAL.name) == 1


async def test_a_private_key_in_a_jobs_plugin_arguments_never_reaches_the_bus(
    scheduler: BusPeer, cluster: ClusterBuilder
):
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----abc"
    await cluster.job("keyed", plugins={"ssh": [f"--ssh-private-key={secret}"], "svc": []})
    await scheduler.until_seen("vcjob", cluster.namespace, "keyed")

    stored = await scheduler.jetstream.last_message(
        STATE.name, f"vc.state.vcjob.{cluster.namespace}.keyed"
    )
    assert stored is not None
    assert b"BEGIN OPENSSH" not in stored.payload


@pytest.mark.parametrize("rubbish", [b"", b"\x00garbage", b'{"json": true}'])
async def test_rubbish_on_state_is_replaced_by_the_truth(
    scheduler: BusPeer, cluster: ClusterBuilder, nats_server: NatsServer, rubbish: bytes
):
    await cluster.pod("victim")
    entry = await scheduler.until_seen("pod", cluster.namespace, "victim")
    async with BusPeer("gateway", nats_server.url) as vandal:
        await vandal.publisher.publish(f"vc.state.pod.{cluster.namespace}.victim", rubbish)

    await eventually(
        lambda: (
            (e := scheduler.view.get("pod", cluster.namespace, "victim")) is not None
            and e.sequence > entry.sequence + 1
        ),
        describe="the fact is written anew",
    )
    repaired = scheduler.view.get("pod", cluster.namespace, "victim")
    assert repaired is not None
    assert repaired.uid == entry.uid
