"""An admission webhook of a test's own: HTTPS on 127.0.0.1, every review noted, answers as told.

    async with webhook_server(tmp_path) as hook:
        hook.answers["/refuse"] = lambda request: denied("no")
        hook.url("/refuse"), hook.ca_bundle, hook.reviews

An answer is what goes into `response` beside the uid; a path without one allows. `registered`
keeps a configuration on the API server for as long as a block runs: a forgotten webhook would be
asked about every later test's objects. It waits until the server asks, since the real one takes
a moment to notice.
"""

import base64
import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from stromboli.api.kinds import CONFIG_MAP
from stromboli.kube import KubeClient, Resource
from stromboli.kube.errors import ApiError
from stromboli.testkit.certificates import Authority
from stromboli.testkit.https_server import Listening, https_server
from stromboli.testkit.manifests import Manifest, config_map, unique
from stromboli.testkit.waiting import eventually

__all__ = [
    "MUTATING",
    "VALIDATING",
    "WebhookServer",
    "allowed",
    "configuration",
    "denied",
    "json_patch",
    "registered",
    "webhook",
    "webhook_server",
]

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = Resource(_GROUP, "v1", "mutatingwebhookconfigurations", namespaced=False)
VALIDATING: Final = Resource(_GROUP, "v1", "validatingwebhookconfigurations", namespaced=False)
_KINDS: Final = {
    MUTATING: "MutatingWebhookConfiguration",
    VALIDATING: "ValidatingWebhookConfiguration",
}

_PROBE: Final = "test.stromboli.sh/probe"

Answerer: TypeAlias = Callable[[Manifest], "Manifest | Awaitable[Manifest]"]


def allowed(*, warnings: Sequence[str] = ()) -> Manifest:
    answer: Manifest = {"allowed": True}
    if warnings:
        answer["warnings"] = list(warnings)
    return answer


def denied(message: str = "", **status: Any) -> Manifest:
    if message:
        status["message"] = message
    return {"allowed": False, "status": status} if status else {"allowed": False}


def json_patch(*operations: Mapping[str, Any]) -> Manifest:
    """The answer that changes the object."""
    patch = base64.b64encode(msgspec.json.encode(list(operations))).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


class WebhookServer:
    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.answers: dict[str, Answerer] = {}
        self.reviews: list[Manifest] = []
        """The requests of all reviews, in order of arrival, with the path they came to."""
        self.raw: dict[str, bytes] = {}
        """Whole response bodies for paths that answer nonsense."""
        self.queries: list[str] = []
        self.listening = Listening(0)

    @property
    def connections(self) -> int:
        return self.listening.connections

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self.authority.certificate.read_bytes()).decode()

    def url(self, path: str = "/") -> str:
        return f"https://127.0.0.1:{self.listening.port}{path}"

    def seen(self, path: str) -> list[Manifest]:
        return [review for review in self.reviews if review["path"] == path]

    def forget(self) -> None:
        self.reviews.clear()
        self.queries.clear()

    async def handle(self, request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read())
        self.reviews.append({**body["request"], "path": request.path})
        self.queries.append(request.query_string)
        if request.path in self.raw:
            return web.Response(body=self.raw[request.path], content_type="application/json")
        answerer = self.answers.get(request.path)
        answer = allowed() if answerer is None else answerer(body["request"])
        if inspect.isawaitable(answer):
            answer = await answer
        review = {
            "apiVersion": body["apiVersion"],
            "kind": "AdmissionReview",
            "response": {"uid": body["request"]["uid"], **answer},
        }
        return web.Response(body=msgspec.json.encode(review), content_type="application/json")


@asynccontextmanager
async def webhook_server(folder: Path) -> AsyncGenerator[WebhookServer, None]:
    authority = Authority(folder / "webhook")
    server = WebhookServer(authority)
    app = web.Application()
    app.router.add_post("/{tail:.*}", server.handle)
    async with https_server(app, authority.server("webhook")) as listening:
        server.listening = listening
        yield server


def webhook(
    server: WebhookServer,
    path: str,
    *,
    namespace: str,
    rules: Sequence[Mapping[str, Any]],
    **fields: Any,
) -> Manifest:
    """One entry of a configuration, for the objects of one namespace."""
    return {
        "name": f"{path.strip('/')}.test.stromboli.sh",
        "clientConfig": {"url": server.url(path), "caBundle": server.ca_bundle},
        "rules": [dict(rule) for rule in rules],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchExpressions": [{"key": _PROBE, "operator": "DoesNotExist"}]},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def configuration(resource: Resource, name: str, *webhooks: Manifest) -> Manifest:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": _KINDS[resource],
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


@asynccontextmanager
async def registered(
    kube: KubeClient,
    server: WebhookServer,
    namespace: str,
    resource: Resource,
    *webhooks: Manifest,
    name: str = "",
) -> AsyncGenerator[str, None]:
    """A configuration that is active while the block runs."""
    name = name or unique("hooks")
    ready = f"/ready-{name}"
    selector = {"matchLabels": {_PROBE: name}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    probe = webhook(server, ready, namespace=namespace, rules=[rule], objectSelector=selector)
    body = configuration(resource, name, *webhooks, probe)
    await kube.create(resource, None, body, field_manager="testkit")

    async def is_active() -> bool:
        probing = config_map(f"probe-{name}", labels={_PROBE: name})
        with contextlib.suppress(ApiError):
            await kube.create(CONFIG_MAP, namespace, probing, field_manager="testkit", dry_run=True)
        return bool(server.seen(ready))

    try:
        await eventually(is_active, deadline_s=20.0)
        server.forget()
        yield name
    finally:
        await kube.delete(resource, None, name)
