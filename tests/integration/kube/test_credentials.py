"""Tokens that change while we run, and the plugins that make them."""

import asyncio
from pathlib import Path

import pytest

from stromboli.kube import KubeAccess, KubeClient, Resource
from stromboli.kube import access as access_module
from stromboli.kube.errors import AccessError, Unauthorized
from stromboli.testkit.scripted_server import serving, whole
from stromboli.testkit.waiting import eventually

THINGS = Resource("example.com", "v1", "things", namespaced=True)


async def test_a_plugin_is_asked_again_when_its_token_is_refused(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old")
    plugin = tmp_path / "plugin.sh"
    plugin.write_text(
        "#!/bin/sh\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"%s"}}}}\' "$(cat {token_file})"\n'
    )
    plugin.chmod(0o755)
    tokens: list[str] = []

    async def checking(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        token = head.lower().split("authorization: bearer ")[1].split()[0]
        tokens.append(token)
        writer.write(whole(b"{}") if token == "new" else whole(b"Unauthorized", code=401))

    async with serving(tmp_path, checking):
        text = (tmp_path / "kubeconfig.yaml").read_text()
        exec_user = (
            "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "
            f"command: {plugin}}}}}"
        )
        kubeconfig = tmp_path / "exec.yaml"
        kubeconfig.write_text(text.replace("{token: secret}", exec_user))
        async with KubeClient.connect(KubeAccess(kubeconfig=str(kubeconfig))) as kube:
            with pytest.raises(Unauthorized):
                await kube.get(THINGS, "n", "a")
            token_file.write_text("new")
            await kube.get(THINGS, "n", "a")
            await kube.get(THINGS, "n", "a")

    # Refused; asked again and still the same; then renewed, and kept.
    assert tokens == ["old", "old", "new", "new"]


async def test_a_plugin_that_fails_is_an_access_error(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "exec.yaml"
    kubeconfig.write_text(
        """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false}}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
    )
    with pytest.raises(AccessError, match="can not be used"):
        async with KubeClient.connect(KubeAccess(kubeconfig=str(kubeconfig))):
            pass


async def test_a_plugin_that_hangs_does_not_take_the_calls_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = tmp_path / "asked", tmp_path / "ended"
    plugin = tmp_path / "plugin.sh"
    plugin.write_text(
        "#!/bin/sh\n"
        f"if [ -e {asked} ]; then sleep 1; touch {ended}; exit 1; fi\n"
        f"touch {asked}\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"good"}}\'\n'
    )
    plugin.chmod(0o755)

    async def checking(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        good = "Bearer good" in head
        writer.write(whole(b"{}") if good else whole(b"Unauthorized", code=401))

    async with serving(tmp_path, checking):
        text = (tmp_path / "kubeconfig.yaml").read_text()
        kubeconfig = tmp_path / "exec.yaml"
        exec_user = (
            "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "
            f"command: {plugin}}}}}"
        )
        kubeconfig.write_text(text.replace("{token: secret}", exec_user))
        access = KubeAccess(kubeconfig=str(kubeconfig), refresh_credentials_every_s=0.01)
        async with KubeClient.connect(access) as kube:
            monkeypatch.setattr(access_module, "CREDENTIALS_TIMEOUT_S", 0.2)
            await asyncio.sleep(0.02)  # the time after which the credentials are looked at again
            await kube.get(THINGS, "n", "a")
            await eventually(ended.exists)


async def test_many_callers_with_a_refused_token_refresh_it_once(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old")
    requests = 0

    async def checking(head: str, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        good = "Bearer new" in head
        writer.write(whole(b"{}") if good else whole(b"Unauthorized", code=401))

    async with serving(tmp_path, checking):
        text = (tmp_path / "kubeconfig.yaml").read_text()
        kubeconfig = tmp_path / "file.yaml"
        kubeconfig.write_text(text.replace("{token: secret}", f"{{tokenFile: {token_file}}}"))
        async with KubeClient.connect(KubeAccess(kubeconfig=str(kubeconfig))) as kube:
            token_file.write_text("new")
            async with asyncio.TaskGroup() as group:
                for _ in range(10):
                    group.create_task(kube.get(THINGS, "n", "a"))

    assert requests <= 20
