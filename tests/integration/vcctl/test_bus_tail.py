"""`vcctl bus tail` as the NATS user `operator`, with the rights that this user has."""

import json
from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api.batch import Job
from stromboli.api.meta import ObjectMeta
from stromboli.api.projections import encode_projection
from stromboli.contracts.codec import encode
from stromboli.contracts.facts import ObjectSeen
from stromboli.contracts.intents import CreateObject, Verb
from stromboli.contracts.nats_config import users_block
from stromboli.contracts.outcomes import Applied
from stromboli.contracts.permissions import SERVICES
from stromboli.contracts.streams import STREAMS
from stromboli.runtime.bus.streams import reconcile
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually
from stromboli.vcctl import bus_tail
from stromboli.vcctl.arguments import parse
from stromboli.vcctl.errors import BusOutOfReach

pytestmark = pytest.mark.nats

PASSWORDS = {service: f"the word of {service}" for service in SERVICES}

FACT = ObjectSeen(
    kind="vcjob",
    namespace="n",
    name="mpi",
    uid="u",
    resource_version="7",
    projection=msgspec.Raw(encode_projection(Job(metadata=ObjectMeta(name="mpi")))),
)
INTENT = CreateObject(
    id="i", key="vcjob/n/mpi", service="controllers", kind="pod", name="mpi-0",
    manifest=b'{"kind": "Pod"}',
)  # fmt: skip
OUTCOME = Applied(
    intent_id="i", service="controllers", verb=Verb.CREATE, kind="pod", key="vcjob/n/mpi", name="p"
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats", config=users_block(PASSWORDS)) as server:
        yield server


@pytest.fixture
async def gateway(server: NatsServer) -> AsyncIterator[Bus]:
    async with join(server, "gateway", password=PASSWORDS["gateway"]) as member:
        await reconcile(member.jetstream, STREAMS)
        yield member


def line(server: NatsServer, tmp_path: Path, *flags: str, password: str = "") -> Namespace:
    words = tmp_path / "password"
    words.write_text(f"{password or PASSWORDS['operator']}\n")
    return parse(["bus", "tail", "--url", server.url, "--password-file", str(words), *flags])


async def test_facts_intents_and_outcomes_are_shown_as_they_pass(
    server: NatsServer, gateway: Bus, tmp_path: Path
):
    lines: list[dict[str, Any]] = []
    await gateway.publisher.publish(FACT.subject(), encode(FACT))
    tailing = bus_tail.tail(
        line(server, tmp_path, "--replay"), lambda text: lines.append(json.loads(text))
    )
    async with (
        background(tailing),
        join(server, "controllers", password=PASSWORDS["controllers"]) as controllers,
    ):
        # A fact that is shown tells that the tail listens to intents as well.
        await eventually(lambda: lines, describe="the fact that was there is shown")
        await controllers.publisher.publish(INTENT.subject(), encode(INTENT))
        await gateway.publisher.publish(OUTCOME.subject(), encode(OUTCOME))
        await eventually(lambda: len(lines) == 3, describe="all three are shown")

    shown = {one["type"]: one for one in lines}
    assert shown["object.seen.v1"]["fields"]["projection"]["metadata"]["name"] == "mpi"
    assert shown["create.v2"]["subject"] == INTENT.subject()
    assert shown["create.v2"]["fields"]["manifest"] == {"kind": "Pod"}
    assert shown["applied.v1"]["fields"]["intent_id"] == "i"
    assert await gateway.messages("INTENT") == 1  # it was looked at, not taken


async def test_only_the_chosen_families_are_shown(server: NatsServer, gateway: Bus, tmp_path: Path):
    kinds: list[str] = []
    for message in (FACT, OUTCOME):
        await gateway.publisher.publish(message.subject(), encode(message))
    tailing = bus_tail.tail(
        line(server, tmp_path, "--replay", "--outcomes"),
        lambda text: kinds.append(json.loads(text)["type"]),
    )
    async with background(tailing):
        await eventually(lambda: kinds, describe="the outcome is shown")

    assert kinds == ["applied.v1"]


async def test_a_wrong_password_is_an_error_and_not_a_wait_without_end(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bus_tail, "CONNECT_DEADLINE_S", 1.0)

    with pytest.raises(BusOutOfReach, match="--password-file"):
        await bus_tail.tail(line(server, tmp_path, password="wrong"), print)
