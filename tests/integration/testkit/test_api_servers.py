"""The servers that other tests stand on: their faults are real and their data stays."""

import pytest

from stromboli.api.kinds import CONFIG_MAP, QUEUE
from stromboli.kube import KubeClient
from stromboli.kube.errors import DeadlineExceeded, Unreachable
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import config_map, decoded


async def test_a_server_keeps_its_objects_address_and_credentials_through_its_faults(
    own_api_server: ApiServer,
) -> None:
    server = own_api_server
    url = server.url
    async with KubeClient.connect(server.access()) as kube:
        assert await kube.serves(QUEUE)
        written = await kube.create(CONFIG_MAP, "default", config_map("a"), field_manager="test")

        server.pause()
        with pytest.raises(DeadlineExceeded):
            await kube.get(CONFIG_MAP, "default", "a", timeout_s=0.3)
        server.resume()
        assert await kube.get(CONFIG_MAP, "default", "a")

        server.kill()
        assert not server.running
        with pytest.raises(Unreachable):
            await kube.get(CONFIG_MAP, "default", "a")
        await server.start()
        assert server.url == url
        assert decoded(await kube.get(CONFIG_MAP, "default", "a"))["metadata"]["uid"] == written.uid

        await server.restart()
        assert await kube.serves(QUEUE)
        again = decoded(await kube.get(CONFIG_MAP, "default", "a"))
        assert again["metadata"]["resourceVersion"] == written.resource_version


async def test_a_running_server_is_not_started_twice(own_api_server: ApiServer) -> None:
    with pytest.raises(RuntimeError, match="already running"):
        await own_api_server.start()
