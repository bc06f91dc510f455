"""A cluster without some of the CRDs: everything else works, and that they are missing is known."""

from pathlib import Path

from stromboli.kube import KubeClient
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.comparison import EVERY_KIND
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.nats_server import NatsServer

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
        told = {line["kind"]: line["advice"] for line in gateway.events("kind.not_served")}
        assert set(told) == set(MISSING)
        assert all("CRD" in advice for advice in told.values())
    finally:
        gateway.kill()
