"""Secrets are made in the gateway, once, for an owner that exists."""

from typing import Any

import pytest

from stromboli.contracts.intents import GenerateSecret
from stromboli.contracts.outcomes import Applied, Reason, Refused
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer

pytestmark = pytest.mark.nats


def generate(peer: BusPeer, *, owner_uid: str, **changed: str) -> GenerateSecret:
    wanted: dict[str, Any] = {
        "namespace": "default",
        "name": "j-ssh",
        "recipe": "ssh-key-pair",
        "owner_kind": "vcjob",
        "owner_name": "j",
        "parameters": {"config": "Host j-t-0\n"},
        **changed,
    }
    return GenerateSecret(**peer._common("j", "default", 20.0), owner_uid=owner_uid, **wanted)


async def test_a_key_pair_is_made_once_and_only_for_its_owner(
    gateway: GatewayProcess, nats_server: NatsServer, cluster: ClusterBuilder
):
    job = await cluster.job("j")
    async with BusPeer("controllers", nats_server.url) as peer:
        await peer.until_synced()
        first = await peer.ask_and_hear(generate(peer, owner_uid=job.uid))
        made = await cluster.fetch("secret", "j-ssh")
        again = await peer.ask_and_hear(generate(peer, owner_uid=job.uid))
        unchanged = await cluster.fetch("secret", "j-ssh")
        stranger = await peer.ask_and_hear(generate(peer, owner_uid="someone", name="x-ssh"))
        orphan = await peer.ask_and_hear(
            generate(peer, owner_uid=job.uid, owner_name="nobody", name="y-ssh")
        )
        unknown = await peer.ask_and_hear(generate(peer, owner_uid=job.uid, recipe="gold"))

    assert isinstance(first, Applied)
    assert not first.already
    assert isinstance(again, Applied)
    assert again.already
    assert made is not None
    assert made == unchanged
    assert sorted(made["data"]) == ["authorized_keys", "config", "id_rsa", "id_rsa.pub"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == job.uid
    for outcome, reason in (
        (stranger, Reason.STALE),
        (orphan, Reason.NOT_FOUND),
        (unknown, Reason.BAD_REQUEST),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.reason is reason
    assert sorted(await cluster.names("secret")) == ["j-ssh"]
