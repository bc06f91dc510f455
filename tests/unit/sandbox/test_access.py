import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest
import yaml
from cryptography import x509
from tests.unit.sandbox.conftest import CONFIG_MAPS, Client, config_map

from stromboli.sandbox import SandboxConfig, SandboxServer
from stromboli.sandbox.certificates import Authority, pki_in
from stromboli.sandbox.errors import ConfigError, DataDirectoryInUse
from stromboli.sandbox.tokens import token_users


def trusting(server: SandboxServer) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(server.ca))


async def who(server: SandboxServer, context: ssl.SSLContext, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(server.url + path, json={}, headers=headers) as response,
    ):
        body = await response.json()
        if response.status != 201:
            return response.status, ""
        return response.status, body["status"]["userInfo"]["username"]


@pytest.fixture
def config(tmp_path: Path) -> SandboxConfig:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,alice,1,"team-a,team-b"\n# a comment\nother,bob,2\n')
    kubeconfig = tmp_path / "kubeconfig"
    return SandboxConfig(data_dir=tmp_path / "data", token_file=tokens, kubeconfig_out=kubeconfig)


async def test_a_token_names_its_owner(server: SandboxServer) -> None:
    context = trusting(server)

    assert await who(server, context, "secret") == (201, "alice")
    assert await who(server, context, "other") == (201, "bob")
    assert await who(server, context, server.token) == (201, "stromboli-admin")


async def test_nobody_gets_in_without_a_name(server: SandboxServer) -> None:
    connector = aiohttp.TCPConnector(ssl=trusting(server))
    async with aiohttp.ClientSession(connector=connector) as session:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eA=="}):
            for path in ("/api/v1/pods", "/apis", "/sandbox/state"):
                async with session.get(server.url + path, headers=headers) as response:
                    status = await response.json()
                    assert (response.status, status["reason"]) == (401, "Unauthorized")
        async with session.get(f"{server.url}/healthz") as response:
            assert response.status == 200


async def test_a_client_certificate_names_its_owner(server: SandboxServer) -> None:
    assert server.pki is not None
    context = trusting(server)
    context.load_cert_chain(server.pki.admin_certificate, server.pki.admin_key)

    assert await who(server, context) == (201, "stromboli-admin")


async def test_a_bad_token_is_not_excused_by_a_good_certificate(server: SandboxServer) -> None:
    assert server.pki is not None
    context = trusting(server)
    context.load_cert_chain(server.pki.admin_certificate, server.pki.admin_key)

    assert (await who(server, context, "wrong"))[0] == 401


async def test_a_certificate_of_another_authority_is_refused(
    server: SandboxServer, tmp_path: Path
) -> None:
    certificate, key = Authority.created().issue("mallory", groups=("system:masters",))
    (tmp_path / "m.crt").write_bytes(certificate)
    (tmp_path / "m.key").write_bytes(key)
    context = trusting(server)
    context.load_cert_chain(tmp_path / "m.crt", tmp_path / "m.key")

    with pytest.raises(aiohttp.ClientError):
        await who(server, context)


async def test_the_kubeconfig_opens_the_door(server: SandboxServer, config: SandboxConfig) -> None:
    assert config.kubeconfig_out is not None
    written = yaml.safe_load(config.kubeconfig_out.read_text())

    assert written["clusters"][0]["cluster"]["server"] == server.url
    assert written["users"][0]["user"]["token"] == server.token
    assert config.kubeconfig_out.stat().st_mode & 0o077 == 0


async def test_certificates_and_token_survive_a_restart(config: SandboxConfig) -> None:
    async with SandboxServer(config) as first:
        before = (first.token, first.ca and first.ca.read_bytes())
    async with SandboxServer(config) as second:
        assert (second.token, second.ca and second.ca.read_bytes()) == before


async def test_two_servers_do_not_share_a_data_directory(config: SandboxConfig) -> None:
    async with SandboxServer(config):
        with pytest.raises(DataDirectoryInUse, match="stop that one"):
            async with asyncio.timeout(5), SandboxServer(config):
                pass


def test_a_new_host_gets_a_new_certificate_from_the_same_authority(tmp_path: Path) -> None:
    first = pki_in(tmp_path, "127.0.0.1")
    authority, certificate = first.ca.read_bytes(), first.certificate.read_bytes()

    again = pki_in(tmp_path, "127.0.0.1")
    assert again.certificate.read_bytes() == certificate
    pki_in(tmp_path, "sandbox.example")
    names = x509.load_pem_x509_certificate(first.certificate.read_bytes()).extensions
    hosts = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "sandbox.example" in hosts.get_values_for_type(x509.DNSName)
    assert first.ca.read_bytes() == authority


@pytest.mark.parametrize("line", ["token", "token,", ",user,uid", "a,b"])
def test_a_bad_line_in_the_token_file_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"good,user,uid\n{line}\n")

    with pytest.raises(ConfigError, match="line 2"):
        token_users(file)


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"port": 70000}, "port"),
        ({"watch_window": 0}, "watch_window"),
        ({"bookmark_interval_s": -1.0}, "bookmark_interval_s"),
        ({"crds": Path("/does/not/exist")}, "crds"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    tmp_path: Path, changes: dict[str, object], setting: str
) -> None:
    with pytest.raises(ConfigError, match=setting):
        SandboxServer(SandboxConfig(data_dir=tmp_path, **changes))  # type: ignore[arg-type]


async def test_definitions_in_a_directory_are_served_from_the_start(tmp_path: Path) -> None:
    crds = tmp_path / "crds"
    crds.mkdir()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.demo.io"},
        "spec": {
            "group": "demo.io",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    (crds / "things.yaml").write_text(yaml.safe_dump_all([definition, {"kind": "Other"}]))
    (crds / "notes.txt").write_text("not a manifest")
    config = SandboxConfig(data_dir=tmp_path / "data", tls=False, crds=crds)

    for _ in range(2):  # the second start updates what the first created
        async with SandboxServer(config) as server, aiohttp.ClientSession() as session:
            client = Client(session, server.url, server.token)
            assert (await client.get("/apis/demo.io/v1/things")).names == []
            assert (await client.post(CONFIG_MAPS, config_map("x"))).code in {201, 409}

    definition["spec"] = {}
    (crds / "things.yaml").write_text(yaml.safe_dump(definition))
    with pytest.raises(ConfigError, match=r"things\.demo\.io"):
        async with SandboxServer(config):
            pass
