"""A cluster without some of the CRDs: everything else works, and that they are missing is known."""

from pathlib import Path
from typing import Any

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import EVERY_KIND
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MISSING = {
    "jobflow": "jobflows.flow.volcano.sh",
    "hypernode": "hypernodes.topology.volcano.sh",
}


async def test_a_kind_that_the_server_does_not_serve_counts_as_none_of_it(
    tmp_path: Path, nats_server: NatsServer, own_api_server: ApiServer
):
    async with KubeClient.connect(own_api_server.access()) as kube:
        for name in MISSING.values():
            answer = await kube.transport.exchange("DELETE", f"{CRDS}/{name}")
            assert answer.code == 200
    gateway = GatewayProcess(
        tmp_path / "gateway", nats_url=nats_server.url, kubeconfig=own_api_server.kubeconfig
    )
    try:
        await gateway.until_ready()
        async with BusPeer("controllers", nats_server.url, kinds=EVERY_KIND) as peer:
            await peer.until_synced()
            assert not any(peer.view.objects(kind) for kind in MISSING)
        # It is logged after the marker that the peer waited for.
        lines = await eventually(lambda: _told_of_all(gateway), deadline_s=10)
        assert all("CRD" in line["advice"] for line in lines)
    finally:
        gateway.kill()


def _told_of_all(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """What was said of kinds that are not served, once all of them, and no other, were named."""
    lines = list(gateway.events("kind.not_served"))
    return lines if {line["kind"] for line in lines} == set(MISSING) else []
