"""What an API server refuses before it looks at the object: who, how much, what form."""

from pathlib import Path

import pytest
import yaml

from stromboli.api.kinds import CONFIG_MAP, POD
from stromboli.kube import KubeAccess, KubeClient
from stromboli.kube.errors import AccessError, ApiError, BodyRefused, Unauthorized, Unreachable
from stromboli.kube.paths import object_path, resource_path
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.manifests import Manifest, config_map, decoded

ME = "contract"


def changed_kubeconfig(server: ApiServer, folder: Path, user: Manifest) -> str:
    """The administrator's kubeconfig with another user in it."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = user
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def test_a_wrong_token_is_unauthorized(api_server: ApiServer, tmp_path: Path) -> None:
    access = KubeAccess(
        kubeconfig=changed_kubeconfig(api_server, tmp_path, {"token": "not-a-token"})
    )
    async with KubeClient.connect(access) as stranger:
        with pytest.raises(Unauthorized) as caught:
            await stranger.get(POD, "default", "a")
        with pytest.raises(Unauthorized):
            async with stranger.watch(POD, resource_version="1"):
                pass

    assert (caught.value.code, caught.value.reason) == (401, "Unauthorized")
    assert caught.value.message == "Unauthorized"


async def test_without_credentials_nothing_can_be_read(
    api_server: ApiServer, tmp_path: Path
) -> None:
    """401, or 403 where the server knows anonymous users."""
    access = KubeAccess(kubeconfig=changed_kubeconfig(api_server, tmp_path, {"token": ""}))
    async with KubeClient.connect(access) as stranger:
        with pytest.raises(ApiError) as caught:
            await stranger.get(POD, "default", "a")

    assert caught.value.code in (401, 403)


async def test_a_token_that_was_replaced_in_its_file_is_read_again(
    api_server: ApiServer, kube: KubeClient, tmp_path: Path
) -> None:
    """Service account tokens rotate; a client must not need a restart for that."""
    right = yaml.safe_load(api_server.kubeconfig.read_text())["users"][0]["user"].get("token")
    if right is None:
        pytest.skip("this server's administrator has a certificate, not a token")
    token_file = tmp_path / "token"
    token_file.write_text("expired")
    access = KubeAccess(
        kubeconfig=changed_kubeconfig(api_server, tmp_path, {"tokenFile": str(token_file)})
    )
    async with KubeClient.connect(access) as client:
        with pytest.raises(Unauthorized):
            await client.get_or_none(POD, "default", "a")
        token_file.write_text(right)
        assert await client.get_or_none(POD, "default", "a") is None


async def test_a_server_with_an_unknown_certificate_is_not_spoken_to(
    api_server: ApiServer, tmp_path: Path
) -> None:
    if not api_server.url.startswith("https:"):
        pytest.skip("this server speaks plain HTTP")
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster.pop("certificate-authority", None)
    cluster.pop("certificate-authority-data", None)
    path = tmp_path / "no-authority.yaml"
    path.write_text(yaml.safe_dump(config))
    async with KubeClient.connect(KubeAccess(kubeconfig=str(path))) as client:
        with pytest.raises(Unreachable, match=r"[Cc]ertificate|CERTIFICATE") as caught:
            await client.create(CONFIG_MAP, "default", config_map("a"), field_manager=ME)

    assert not caught.value.maybe_applied


async def test_a_missing_kubeconfig_is_an_access_error(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="there is no kubeconfig"):
        async with KubeClient.connect(KubeAccess(kubeconfig=str(tmp_path / "none"))):
            pass


@pytest.mark.parametrize("text", ["", "{", "[]", "apiVersion: v1", "current-context: x"])
async def test_a_broken_kubeconfig_is_an_access_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(AccessError, match="can not be used"):
        async with KubeClient.connect(KubeAccess(kubeconfig=str(path))):
            pass


async def test_a_missing_context_is_an_access_error(api_server: ApiServer) -> None:
    access = KubeAccess(kubeconfig=str(api_server.kubeconfig), context="elsewhere")
    with pytest.raises(AccessError, match="elsewhere"):
        async with KubeClient.connect(access):
            pass


async def test_a_body_of_an_unknown_type_is_refused(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(BodyRefused) as caught:
        await kube.transport.send(
            "POST",
            resource_path(CONFIG_MAP, namespace),
            body=b"<xml/>",
            content_type="application/xml",
        )

    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")


async def test_a_body_may_be_yaml(kube: KubeClient, namespace: str) -> None:
    """What `kubectl create --raw -f` sends is up to its user."""
    answer = await kube.transport.send(
        "POST",
        resource_path(CONFIG_MAP, namespace),
        body=yaml.safe_dump(config_map("a", {"x": "1"})).encode(),
        content_type="application/yaml",
    )

    assert decoded(answer.body)["data"] == {"x": "1"}


async def test_a_body_that_is_too_large_is_refused(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(BodyRefused) as caught:
        await kube.create(
            CONFIG_MAP, namespace, config_map("a", {"k": "x" * 4_000_000}), field_manager=ME
        )

    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")
    assert (await kube.server_version()).major == "1"


async def test_a_method_that_a_path_does_not_have_is_refused(
    kube: KubeClient, namespace: str
) -> None:
    answer = await kube.transport.exchange(
        "POST", object_path(CONFIG_MAP, namespace, "a"), body=b"{}"
    )

    assert answer.code == 405
    assert decoded(answer.body)["reason"] == "MethodNotAllowed"


async def test_an_error_is_a_status_with_everything_a_client_needs(
    kube: KubeClient, namespace: str
) -> None:
    answer = await kube.transport.exchange("GET", object_path(CONFIG_MAP, namespace, "nope"))

    assert answer.code == 404
    assert answer.headers["Content-Type"].startswith("application/json")
    assert decoded(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "configmaps"},
        "code": 404,
    }


@pytest.mark.parametrize(
    "query",
    [{"dryRun": "Some"}, {"limit": "many"}, {"timeoutSeconds": "soon", "watch": "true"}],
    ids=str,
)
async def test_a_parameter_that_can_not_be_read_is_refused(
    kube: KubeClient, namespace: str, query: dict[str, str]
) -> None:
    method, body = ("POST", b"{}") if "dryRun" in query else ("GET", None)
    answer = await kube.transport.exchange(
        method, resource_path(CONFIG_MAP, namespace), query=query, body=body
    )

    assert answer.code in (400, 422)
