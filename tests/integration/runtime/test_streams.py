import asyncio

import msgspec
import pytest
from nats.aio.msg import Msg

from stromboli.contracts.streams import (
    DEAD,
    HISTORY,
    INTENT,
    LEASES,
    OUTCOME,
    STATE,
    STREAMS,
    Retention,
    StreamSpec,
)
from stromboli.runtime.bus.errors import JetStreamError, StreamFull, StreamMismatch
from stromboli.runtime.bus.streams import differences, reconcile, stream_config, wait_for
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_cluster import NatsCluster
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = pytest.mark.nats


async def test_reconciling_creates_every_stream(nats_server: NatsServer):
    async with join(nats_server) as bus:
        infos = await reconcile(bus.jetstream, STREAMS)

        assert list(infos) == [spec.name for spec in STREAMS]
        for spec in STREAMS:
            info = await bus.jetstream.stream_info(spec.name)
            assert info.created == infos[spec.name].created
            assert info.config["subjects"] == list(spec.subjects)


@pytest.mark.parametrize("spec", STREAMS, ids=lambda spec: spec.name)
async def test_what_the_server_made_of_a_stream_is_what_the_contract_says(
    bus: Bus, spec: StreamSpec
):
    info = await bus.jetstream.stream_info(spec.name)

    assert differences(info.config, stream_config(spec)) == {}


async def test_reconciling_again_changes_nothing(bus: Bus):
    before = {spec.name: await bus.jetstream.stream_info(spec.name) for spec in STREAMS}
    advisories: list[str] = []

    async def heard(message: Msg) -> None:
        advisories.append(message.subject)

    await bus.connection.subscribe("$JS.EVENT.ADVISORY.STREAM.>", heard)
    await reconcile(bus.jetstream, STREAMS)
    # The server tells about this one, so it would have told about the others too.
    await bus.jetstream.create_stream({"name": "LAST", "subjects": ["last"], "storage": "memory"})
    await eventually(lambda: advisories, describe="the advisory about LAST")

    assert advisories == ["$JS.EVENT.ADVISORY.STREAM.CREATED.LAST"]
    for name, info in before.items():
        after = await bus.jetstream.stream_info(name)
        assert (after.created, after.config) == (info.created, info.config)


async def test_two_gateways_may_reconcile_at_the_same_time(nats_server: NatsServer):
    async with join(nats_server) as one, join(nats_server) as other:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(reconcile(one.jetstream, STREAMS))
            second = group.create_task(reconcile(other.jetstream, STREAMS))

        created = {name: info.created for name, info in first.result().items()}
        assert created == {name: info.created for name, info in second.result().items()}


@pytest.mark.parametrize("spec", [STATE, INTENT, OUTCOME, HISTORY, DEAD, LEASES])
async def test_what_may_change_is_changed_in_place(bus: Bus, spec: StreamSpec):
    subject = spec.subjects[0].replace(">", "a.b.c")
    await bus.publisher.publish(subject, b"kept")
    before = await bus.jetstream.stream_info(spec.name)
    changed = msgspec.structs.replace(
        spec, description="said in other words", max_bytes=512 * 1024 * 1024
    )

    infos = await reconcile(bus.jetstream, [changed])

    after = await bus.jetstream.stream_info(spec.name)
    assert infos[spec.name].config == after.config
    assert after.config["description"] == "said in other words"
    assert after.config["max_bytes"] == 512 * 1024 * 1024
    assert after.created == before.created
    assert after.state.messages == 1
    assert differences(after.config, stream_config(changed)) == {}


async def test_a_stream_whose_retention_differs_is_refused_and_left_alone(bus: Bus):
    await bus.publisher.publish("vc.outcome.scheduler.bind.pod", b"kept")
    changed = msgspec.structs.replace(OUTCOME, retention=Retention.WORK_QUEUE, description="new")

    with pytest.raises(StreamMismatch, match="retention is 'limits', expected 'workqueue'") as no:
        await reconcile(bus.jetstream, [changed])

    assert no.value.stream == "OUTCOME"
    info = await bus.jetstream.stream_info("OUTCOME")
    assert info.config["description"] == OUTCOME.description
    assert info.state.messages == 1


async def test_a_service_waits_until_the_streams_are_there(nats_server: NatsServer):
    async with join(nats_server, "scheduler") as scheduler, join(nats_server) as gateway:
        waiting = asyncio.create_task(wait_for(scheduler.jetstream, STREAMS))
        await reconcile(gateway.jetstream, STREAMS[:-1])
        with pytest.raises(JetStreamError):
            await scheduler.jetstream.stream_info(STREAMS[-1].name)
        assert not waiting.done()

        await reconcile(gateway.jetstream, STREAMS)

        async with asyncio.timeout(5):
            await waiting


async def test_state_keeps_one_message_per_subject(bus: Bus):
    last = 0
    for number in range(5):
        ack = await bus.publisher.publish(
            "vc.state.pod.a.b", b"%d" % number, expect_last=last, ttl_s=0
        )
        last = ack.seq

    stored = await bus.jetstream.last_message("STATE", "vc.state.pod.a.b")
    assert await bus.messages("STATE") == 1
    assert stored is not None
    assert (stored.payload, stored.sequence) == (b"4", last)


async def test_a_tombstone_lives_as_long_as_it_says(bus: Bus):
    first = await bus.publisher.publish("vc.state.pod.a.b", b"here")
    await bus.publisher.publish("vc.state.pod.a.b", b"gone", expect_last=first.seq, ttl_s=1)
    assert await bus.messages("STATE") == 1

    async def is_empty() -> bool:
        return await bus.messages("STATE") == 0

    await eventually(is_empty, deadline_s=5, interval_s=0.1, describe="the tombstone to expire")
    # After it, the subject counts as never written.
    await bus.publisher.publish("vc.state.pod.a.b", b"back", expect_last=0)


async def test_all_subjects_of_a_stream_can_be_listed(bus: Bus):
    for name in ("a", "b", "c"):
        await bus.publisher.publish(f"vc.state.pod.ns.{name}", b"")
    await bus.publisher.publish("vc.state.node.-.n", b"")

    found = await bus.jetstream.subjects("STATE", "vc.state.pod.>")

    assert found == {f"vc.state.pod.ns.{name}" for name in ("a", "b", "c")}


SMALL = msgspec.structs.replace(STATE, max_bytes=50_000)


async def fill_beyond(bus: Bus, limited: StreamSpec, *, replicas: int) -> dict[str, int]:
    """A STATE that holds more than the limit it then gets; each subject and its sequence."""
    unlimited = msgspec.structs.replace(limited, max_bytes=0, discard_new=False)
    await reconcile(bus.jetstream, [unlimited], replicas=replicas)
    stored: dict[str, int] = {}
    for number in range(60):
        subject = f"vc.state.pod.ns.p{number}"
        stored[subject] = (await bus.publisher.publish(subject, b"x" * 900)).seq
    await reconcile(bus.jetstream, [limited], replicas=replicas)
    return stored


async def standing(bus: Bus) -> dict[str, int]:
    subjects = await bus.jetstream.subjects(STATE.name, "vc.state.>")
    found = {subject: await bus.jetstream.last_message(STATE.name, subject) for subject in subjects}
    return {subject: stored.sequence for subject, stored in found.items() if stored is not None}


async def test_a_limit_below_what_state_holds_takes_nothing_away(nats_server: NatsServer):
    async with join(nats_server) as bus:
        stored = await fill_beyond(bus, SMALL, replicas=1)
        assert await standing(bus) == stored

        nats_server.kill()
        await nats_server.start()

        async def is_back() -> bool:
            return bus.connection.connected and await standing(bus) == stored

        await eventually(is_back, deadline_s=10, describe="all facts after a restart")


async def test_a_full_state_refuses_what_grows_and_what_stood_still_stands(
    nats_server: NatsServer,
):
    async with join(nats_server) as bus:
        stored = await fill_beyond(bus, SMALL, replicas=1)
        for subject in ("vc.state.pod.ns.p1", "vc.state.pod.ns.new"):
            with pytest.raises(StreamFull, match="maximum bytes exceeded"):
                await bus.publisher.publish(
                    subject, b"x" * 1000, expect_last=stored.get(subject, 0)
                )
        assert await standing(bus) == stored


async def test_a_smaller_message_takes_the_place_of_a_larger_one_in_a_full_state(
    nats_server: NatsServer,
):
    async with join(nats_server) as bus:
        stored = await fill_beyond(bus, SMALL, replicas=1)

        ack = await bus.publisher.publish(
            "vc.state.pod.ns.p1", b"x" * 100, expect_last=stored["vc.state.pod.ns.p1"], ttl_s=60
        )

        assert await standing(bus) == {**stored, "vc.state.pod.ns.p1": ack.seq}


async def test_a_full_state_in_a_cluster_refuses_even_what_is_smaller(nats_cluster: NatsCluster):
    """Why objects that are new stop before the limit: ends must find room."""
    async with join(nats_cluster) as bus:
        stored = await fill_beyond(bus, SMALL, replicas=3)

        with pytest.raises(StreamFull, match="maximum bytes exceeded"):
            await bus.publisher.publish(
                "vc.state.pod.ns.p1", b"x" * 100, expect_last=stored["vc.state.pod.ns.p1"], ttl_s=60
            )

        assert await standing(bus) == stored
