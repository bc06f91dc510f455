"""Requests that go through the proxy of the environment, and those that must not."""

import asyncio
from pathlib import Path

import pytest
import yaml

from stromboli.kube import KubeAccess, KubeClient, Resource
from stromboli.kube.errors import Unreachable
from stromboli.testkit.scripted_server import serving, whole

THINGS = Resource("example.com", "v1", "things", namespaced=True)


async def test_a_server_on_this_machine_is_asked_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async def answering(_: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"{}"))

    async with serving(tmp_path, answering) as kube:
        assert await kube.get(THINGS, "n", "a") == b"{}"


async def test_a_server_elsewhere_is_asked_through_the_proxy_unless_its_network_is_excepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[str] = []

    async def proxying(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(whole(b"{}"))

    async with serving(tmp_path, proxying):
        kubeconfig = tmp_path / "kubeconfig.yaml"
        proxy = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        elsewhere = tmp_path / "elsewhere.yaml"
        # An address of the network for documentation (RFC 5737): there is nobody.
        elsewhere.write_text(kubeconfig.read_text().replace(proxy, "http://192.0.2.1:6443"))
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("NO_PROXY", "192.0.2.2,198.51.100.0/24")
        access = KubeAccess(kubeconfig=str(elsewhere))
        async with KubeClient.connect(access) as kube:
            assert await kube.get(THINGS, "n", "a") == b"{}"
        monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
        access = KubeAccess(kubeconfig=str(elsewhere), timeout_s=0.2)
        async with KubeClient.connect(access) as kube:
            with pytest.raises(Unreachable):
                await kube.get(THINGS, "n", "a")

    assert [head.split()[:2] for head in heads] == [
        ["GET", "http://192.0.2.1:6443/apis/example.com/v1/namespaces/n/things/a"]
    ]
