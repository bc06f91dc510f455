"""Requests passed on to services and pods of this machine, and webhooks behind services."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.serialization import Encoding
from tests.unit.sandbox.conftest import CONFIG_MAPS, PODS, Client, config_map, eventually, pod

from stromboli.sandbox import SandboxConfig, SandboxServer
from stromboli.sandbox.certificates import Authority
from stromboli.testkit.certificates import KeyPair
from stromboli.testkit.https_server import https_server

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
async def web_port() -> AsyncIterator[int]:
    """A server that says what it was asked."""

    async def answer(request: web.Request) -> web.Response:
        told: dict[str, Any] = {
            "method": request.method,
            "path": request.raw_path,
            "body": (await request.read()).decode(),
            "headers": sorted(key.lower() for key in request.headers),
        }
        return web.json_response(told, status=418, headers={"X-Kept": "yes"})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def service(client: Client, name: str, **spec: Any) -> None:
    await client.made(SERVICES, {"metadata": {"name": name}, "spec": spec})


async def endpoints(client: Client, name: str, ip: str, port: int, port_name: str = "") -> None:
    subset = {"addresses": [{"ip": ip}], "ports": [{"port": port, "name": port_name}]}
    await client.made(ENDPOINTS, {"metadata": {"name": name}, "subsets": [subset]})


async def test_a_request_is_passed_on_whole(client: Client, web_port: int) -> None:
    await service(client, "web", ports=[{"port": 80}])
    await endpoints(client, "web", "127.0.0.1", web_port)
    reply = await client.post(f"{SERVICES}/web:80/proxy/a%2Fb/c/?x=1&dryRun=odd", {"k": "v"})

    assert reply.code == 418
    assert (reply.body["method"], reply.body["path"]) == ("POST", "/a%2Fb/c/?x=1&dryRun=odd")
    assert json.loads(reply.body["body"]) == {"k": "v"}
    assert "authorization" not in reply.body["headers"]


async def test_ports_are_found_by_name_and_through_slices(client: Client, web_port: int) -> None:
    await service(client, "web", ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}])
    labels = {"kubernetes.io/service-name": "web"}
    body = {
        "metadata": {"name": "web-1", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "b", "port": web_port}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
    }
    await client.made("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", body)

    assert (await client.get(f"{SERVICES}/web:b/proxy/")).code == 418
    assert (await client.get(f"{SERVICES}/web:2/proxy/")).code == 418
    assert (await client.get(f"{SERVICES}/web:a/proxy/")).code == 503
    assert (await client.get(f"{SERVICES}/web/proxy/")).code == 503


async def ready_pod(client: Client, name: str, ip: str, port: int) -> None:
    ports = [{"name": "http", "containerPort": port}]
    container = {"name": "main", "image": "b", "ports": ports}
    await client.made(PODS, pod(name, labels={"app": "web"}, containers=[container]))
    status = {"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.merge(f"{PODS}/{name}/status", {"status": status})


async def test_a_selector_finds_ready_pods(client: Client, web_port: int) -> None:
    await service(
        client, "web", selector={"app": "web"}, ports=[{"port": 80, "targetPort": "http"}]
    )
    assert (await client.get(f"{SERVICES}/web/proxy/")).code == 503
    await ready_pod(client, "a", "127.0.0.1", web_port)

    assert (await client.get(f"{SERVICES}/web/proxy/")).code == 418
    assert (await client.get(f"{PODS}/a/proxy/x")).body["path"] == "/x"
    assert (await client.get(f"{PODS}/a:http/proxy/")).code == 418


async def test_addresses_that_lead_elsewhere_are_not_connected_to(client: Client) -> None:
    await service(client, "web", selector={"app": "web"}, ports=[{"port": 80}])
    await ready_pod(client, "a", "10.0.0.1", 80)
    by_service = await client.get(f"{SERVICES}/web/proxy/")
    by_pod = await client.get(f"{PODS}/a/proxy/")

    assert (by_service.code, by_pod.code) == (503, 503)
    assert "none on this machine" in by_service.message
    assert "simulated" in by_pod.message


async def test_nobody_listening_is_unavailable(client: Client) -> None:
    await service(client, "web", ports=[{"port": 80}])
    await endpoints(client, "web", "127.0.0.1", 1)
    reply = await client.get(f"{SERVICES}/web/proxy/")

    assert (reply.code, reply.reason) == (503, "ServiceUnavailable")
    assert reply.message == (
        "error trying to reach service: dial tcp 127.0.0.1:1: connect: connection refused"
    )


class Judge:
    """A webhook behind a service that refuses, or not."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.authority = Authority.created()
        certificate, key = self.authority.issue("judge", hosts=["judge.default.svc"])
        (folder / "crt").write_bytes(certificate)
        (folder / "key").write_bytes(key)
        self.keys = KeyPair(folder / "crt", folder / "key")
        self.allowed = True
        self.padding = ""
        self.seen: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.seen.append(review["request"])
        response = {"uid": review["request"]["uid"], "allowed": self.allowed}
        return web.json_response({**review, "response": response, "padding": self.padding})

    def configuration(self, resource: str, group: str = "") -> dict[str, Any]:
        bundle = self.authority.certificate.public_bytes(Encoding.PEM)
        rule = {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["*"],
            "resources": [resource],
        }
        place = {"name": "judge", "namespace": "default", "path": "/judge"}
        entry = {
            "name": "judge.example.com",
            "clientConfig": {
                "service": place,
                "caBundle": base64.b64encode(bundle).decode(),
            },
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        return {"metadata": {"name": "judge"}, "webhooks": [entry]}


@pytest.fixture
async def judge(client: Client, tmp_path: Path) -> AsyncIterator[Judge]:
    one = Judge(tmp_path / "judge")
    app = web.Application()
    app.router.add_post("/judge", one.answer)
    async with https_server(app, one.keys) as listening:
        await service(client, "judge", ports=[{"port": 443}])
        await endpoints(client, "judge", "127.0.0.1", listening.port)
        yield one


async def test_a_webhook_behind_a_service_is_known_by_the_services_name(
    client: Client, judge: Judge
) -> None:
    await client.made(VALIDATING, judge.configuration("configmaps"))
    assert (await client.post(CONFIG_MAPS, config_map("a"))).code == 201
    judge.allowed = False
    refused = await client.post(CONFIG_MAPS, config_map("b"))

    assert refused.code == 400
    assert 'admission webhook "judge.example.com" denied the request' in refused.message
    assert len(judge.seen) == 2


async def test_a_webhooks_answer_is_read_to_the_limit_and_no_further(
    client: Client, judge: Judge
) -> None:
    await client.made(VALIDATING, judge.configuration("configmaps"))
    judge.padding = "x" * (3 * 1024 * 1024 - 10_000)
    assert (await client.post(CONFIG_MAPS, config_map("a"))).code == 201
    judge.padding += "x" * 10_000
    refused = await client.post(CONFIG_MAPS, config_map("b"))

    assert refused.code == 500
    assert "the answer is larger than 3145728 bytes" in refused.message


async def test_the_collector_asks_too_and_tries_again(client: Client, judge: Judge) -> None:
    owner = await client.made(CONFIG_MAPS, config_map("owner"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner.meta["uid"],
    }
    secrets = "/api/v1/namespaces/default/secrets"
    await client.made(secrets, {"metadata": {"name": "s", "ownerReferences": [reference]}})
    await client.made(VALIDATING, judge.configuration("secrets"))
    judge.allowed = False
    await client.delete(f"{CONFIG_MAPS}/owner")
    await eventually(lambda: len(judge.seen) > 0)
    assert (await client.get(f"{secrets}/s")).code == 200
    judge.allowed = True

    await client.until(f"{secrets}/s", lambda reply: reply.code == 404)
    assert judge.seen[0]["operation"] == "DELETE"
    assert "garbage-collector" in judge.seen[0]["userInfo"]["username"]


async def test_a_start_asks_nobody(
    client: Client, server: SandboxServer, config: SandboxConfig, judge: Judge, tmp_path: Path
) -> None:
    """A webhook that is down, or says no, must not keep the server from coming back."""
    group = "apiextensions.k8s.io"
    await client.made(VALIDATING, judge.configuration("customresourcedefinitions", group))
    judge.allowed = False
    await server.__aexit__()
    crds = tmp_path / "crds"
    crds.mkdir()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "things", "kind": "Thing"}
    definition = {
        "apiVersion": f"{group}/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.demo.io"},
        "spec": {
            "group": "demo.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
    (crds / "thing.json").write_text(json.dumps(definition))

    async with SandboxServer(
        SandboxConfig(data_dir=config.data_dir, tls=False, crds=crds)
    ) as again:
        later = Client(client.session, again.url, again.token)
        assert (await later.get("/apis/demo.io/v1/namespaces/default/things")).code == 200
    assert judge.seen == []


async def test_the_audit_log_knows_the_client_and_what_was_passed_on(
    client: Client, web_port: int, tmp_path: Path
) -> None:
    await service(client, "web", ports=[{"port": 80}])
    await endpoints(client, "web", "127.0.0.1", web_port)
    await client.post(f"{SERVICES}/web/proxy/x", {})
    lines = [
        json.loads(line) for line in (tmp_path / "data" / "audit.log").read_text().splitlines()
    ]

    assert lines[0]["userAgent"].startswith("Python/")
    last = lines[-1]
    assert (last["resource"], last["subresource"], last["code"]) == ("services", "proxy", 418)
