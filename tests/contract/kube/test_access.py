"""Ways to be somebody at an API server: token, certificate, service account."""

import shutil
from base64 import b64decode
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes_asyncio.config import incluster_config

from stromboli.api.kinds import POD
from stromboli.kube import KubeAccess, KubeClient
from stromboli.kube.errors import AccessError, Forbidden
from stromboli.testkit.api_server import ApiServer, write_kubeconfig
from stromboli.testkit.kube_apiserver import KubeApiServer
from stromboli.testkit.manifests import decoded


async def who_am_i(kube: KubeClient) -> str:
    answer = await kube.transport.send(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body=b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
    )
    return str(decoded(answer.body)["status"]["userInfo"]["username"])


def real(server: ApiServer, why: str) -> KubeApiServer:
    if not isinstance(server, KubeApiServer):
        pytest.skip(why)
    return server


async def test_a_certificate_is_as_good_as_a_token(api_server: ApiServer) -> None:
    server = real(api_server, "the sandbox's kubeconfig decides what its administrator has")
    for kubeconfig, name in (
        (server.kubeconfig, "token-admin"),
        (server.certificate_kubeconfig, "certificate-admin"),
    ):
        async with KubeClient.connect(KubeAccess(kubeconfig=str(kubeconfig))) as kube:
            assert await who_am_i(kube) == name


async def test_certificates_that_were_replaced_are_used_without_a_restart(
    api_server: ApiServer, tmp_path: Path
) -> None:
    server = real(api_server, "the sandbox's authority is its own")
    pairs = [server.authority.user(name, "system:masters") for name in ("first", "second")]
    certificate, key, kubeconfig = tmp_path / "crt", tmp_path / "key", tmp_path / "kubeconfig"
    write_kubeconfig(
        kubeconfig,
        url=server.url,
        authority=server.authority.certificate,
        certificate=certificate,
        key=key,
    )

    def install(number: int) -> None:
        shutil.copy(pairs[number].certificate, certificate)
        shutil.copy(pairs[number].key, key)

    install(0)
    access = KubeAccess(kubeconfig=str(kubeconfig), refresh_credentials_every_s=0.001)
    async with KubeClient.connect(access) as kube:
        assert await who_am_i(kube) == "first"
        install(1)
        assert await who_am_i(kube) == "second"


async def test_a_user_without_rights_is_told_which_one_is_missing(api_server: ApiServer) -> None:
    server = real(api_server, "everybody may do everything in the sandbox")
    access = KubeAccess(kubeconfig=str(server.powerless_kubeconfig))
    async with KubeClient.connect(access) as kube:
        with pytest.raises(Forbidden) as caught:
            await kube.get(POD, "default", "a")
        with pytest.raises(Forbidden):
            async with kube.watch(POD, resource_version="1"):
                pass

    assert 'User "powerless" cannot get resource "pods"' in caught.value.message
    assert caught.value.quota is None


async def test_a_pod_uses_its_service_account_and_follows_its_token(
    api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    token = config["users"][0]["user"].get("token")
    cluster = config["clusters"][0]["cluster"]
    if token is None:
        pytest.skip("this server's administrator has no token to borrow")
    authority = cluster.get("certificate-authority")
    if authority is None:
        copied = tmp_path / "ca.crt"
        copied.write_bytes(b64decode(cluster["certificate-authority-data"]))
        authority = str(copied)
    address = urlsplit(api_server.url)
    token_file = tmp_path / "token"
    token_file.write_text("expired")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token_file))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", authority)
    async with KubeClient.connect(KubeAccess(in_cluster=True)) as kube:
        token_file.write_text(token)
        assert await kube.get_or_none(POD, "default", "a") is None


async def test_outside_of_a_pod_there_is_no_service_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(AccessError, match="no usable service account"):
        async with KubeClient.connect(KubeAccess(in_cluster=True)):
            pass
