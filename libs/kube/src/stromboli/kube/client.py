"""The verbs of a Kubernetes API server, as few and as plain as we need them.

Bodies go out as given and objects come back as bytes. There is no PUT: we never write
back what we read. Nothing is retried here; `errors` says what may be, and the caller knows
what it wants. A name is checked before anything is sent.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import msgspec

from stromboli.kube.errors import NotFound, Undecodable
from stromboli.kube.paths import (
    PODS,
    ResourceKind,
    group_version_path,
    object_path,
    resource_path,
)
from stromboli.kube.settings import KubeAccess
from stromboli.kube.status import Status
from stromboli.kube.transport import Answer, Transport
from stromboli.kube.watching import Watch
from stromboli.kube.wire import (
    Deleted,
    Page,
    PatchType,
    ServerVersion,
    Written,
    decode_page,
    is_status,
    read_meta,
)

__all__ = ["Body", "KubeClient"]

T = TypeVar("T")

Body: TypeAlias = bytes | Mapping[str, object] | Sequence[object] | msgspec.Struct
"""JSON, or what becomes JSON; a sequence is a JSON patch."""

WATCH_GRACE_S = 15.0
"""How long after its announced end a watch may still be open before we hang up."""


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _ResourceList(msgspec.Struct, frozen=True):
    resources: list[_Resource] = []


class KubeClient:
    """One API server, seen as one user. Make it with `connect`."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @classmethod
    @asynccontextmanager
    async def connect(cls, access: KubeAccess) -> AsyncGenerator["KubeClient", None]:
        """A client whose connections are closed at the end. Nothing is sent yet."""
        # It brings all of kubernetes_asyncio: who never connects does not wait for that.
        from stromboli.kube.access import connect

        connection = await connect(access)
        try:
            yield cls(Transport(connection, access))
        finally:
            await connection.close()

    # Reading

    async def get(
        self,
        kind: ResourceKind,
        namespace: str | None,
        name: str,
        *,
        timeout_s: float | None = None,
    ) -> bytes:
        """The object, as stored."""
        path = object_path(kind, namespace, name)
        return (await self.transport.send("GET", path, timeout_s=timeout_s)).body

    async def get_or_none(
        self,
        kind: ResourceKind,
        namespace: str | None,
        name: str,
        *,
        timeout_s: float | None = None,
    ) -> bytes | None:
        """The object, or None when there is none; a kind the server does not know still raises."""
        try:
            return await self.get(kind, namespace, name, timeout_s=timeout_s)
        except NotFound as error:
            if error.is_unknown_kind:
                raise
            return None

    async def list_pages(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Page, None]:
        """All objects, page by page, as of one resourceVersion.

        Raises Gone when the pages were fetched too slowly and the server has forgotten that
        version; what was read until then is no complete list.
        """
        path = resource_path(kind, namespace)
        query = _selectors(label_selector, field_selector) | {"limit": str(limit)}
        while True:
            answer = await self.transport.send(
                "GET",
                path,
                query=query,
                timeout_s=timeout_s,
                max_bytes=self.transport.limits.max_page_bytes,
            )
            try:
                page = decode_page(answer.body)
            except msgspec.DecodeError as error:
                raise Undecodable(f"GET {path}", str(error), maybe_applied=False) from error
            yield page
            if not page.continue_token:
                return
            query = query | {"continue": page.continue_token}

    @asynccontextmanager
    async def watch(
        self,
        kind: ResourceKind,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_s: float = 240.0,
    ) -> AsyncGenerator[Watch, None]:
        """The changes after `resource_version`, with bookmarks.

        The server ends it after `timeout_s`. Raises Gone, here or while reading, when its
        history does not reach back that far.
        """
        path = resource_path(kind, namespace)
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_s))),
        }
        async with self.transport.stream(path, query=query) as stream:
            yield Watch(
                f"WATCH {path}",
                stream,
                max_object_bytes=self.transport.limits.max_object_bytes,
                lasts_s=timeout_s + WATCH_GRACE_S,
            )

    # Writing

    async def create(
        self,
        kind: ResourceKind,
        namespace: str | None,
        body: Body,
        *,
        field_manager: str,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> Written:
        """A new object; AlreadyExists if its name is taken."""
        answer = await self.transport.send(
            "POST",
            resource_path(kind, namespace),
            query=_write_query(field_manager, dry_run=dry_run),
            body=_encode(body),
            timeout_s=timeout_s,
        )
        return _written(f"create {kind.plural}", answer)

    async def patch(
        self,
        kind: ResourceKind,
        namespace: str | None,
        name: str,
        body: Body,
        *,
        patch_type: PatchType,
        field_manager: str,
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> Written:
        """Change the fields in `body`. A uid in its metadata makes it a precondition.

        `force` takes fields over from other managers; the server accepts it for APPLY only.
        """
        query = _write_query(field_manager, dry_run=dry_run)
        if force:
            query["force"] = "true"
        answer = await self.transport.send(
            "PATCH",
            object_path(kind, namespace, name, subresource),
            query=query,
            body=_encode(body),
            content_type=patch_type.value,
            timeout_s=timeout_s,
        )
        return _written(f"patch {kind.plural} {name}", answer)

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_s: int | None = None,
        propagation: str = "Background",
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> Deleted:
        """Delete the object if it is still the one with this uid (and version); else Conflict."""
        answer = await self.transport.send(
            "DELETE",
            object_path(kind, namespace, name),
            # A server that gets a body ignores the query, so everything is in the body.
            body=_encode(
                _delete_options(
                    uid=uid,
                    resource_version=resource_version,
                    grace_period_s=grace_period_s,
                    propagation=propagation,
                    dry_run=dry_run,
                )
            ),
            timeout_s=timeout_s,
        )
        request = f"delete {kind.plural} {name}"
        if _decoded(request, is_status, answer.body):
            status = _decoded(request, msgspec.json.Decoder(Status).decode, answer.body)
            return Deleted(uid=status.details.uid or uid or "", is_gone=True)
        meta = _decoded(request, read_meta, answer.body)
        waits = bool(meta.finalizers) or bool(meta.deletion_grace_period_seconds)
        return Deleted(uid=meta.uid, resource_version=meta.resource_version, is_gone=not waits)

    async def bind(
        self,
        namespace: str,
        pod: str,
        *,
        uid: str,
        node: str,
        timeout_s: float | None = None,
    ) -> None:
        """Put the pod on the node; Conflict if it is another pod by now or has a node."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = object_path(PODS, namespace, pod, "binding")
        await self.transport.send("POST", path, body=_encode(body), timeout_s=timeout_s)

    async def evict(
        self,
        namespace: str,
        pod: str,
        *,
        uid: str,
        grace_period_s: int | None = None,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the pod as far as disruption budgets allow (TooManyRequests if not now)."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": _delete_options(uid=uid, grace_period_s=grace_period_s),
        }
        await self.transport.send(
            "POST",
            object_path(PODS, namespace, pod, "eviction"),
            query={"dryRun": "All"} if dry_run else None,
            body=_encode(body),
            timeout_s=timeout_s,
        )

    # Asking about the server

    async def server_version(self, *, timeout_s: float | None = None) -> ServerVersion:
        answer = await self.transport.send("GET", "/version", timeout_s=timeout_s)
        return _decoded("GET /version", msgspec.json.Decoder(ServerVersion).decode, answer.body)

    async def serves(self, kind: ResourceKind, *, timeout_s: float | None = None) -> bool:
        """Whether the server knows the kind; a CRD that was just created may take a moment."""
        path = group_version_path(kind)
        try:
            answer = await self.transport.send("GET", path, timeout_s=timeout_s)
        except NotFound:
            return False
        found = _decoded(f"GET {path}", msgspec.json.Decoder(_ResourceList).decode, answer.body)
        return any(resource.name == kind.plural for resource in found.resources)


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    query: dict[str, str] = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _write_query(field_manager: str, *, dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": field_manager}
    if dry_run:
        query["dryRun"] = "All"
    return query


def _delete_options(
    *,
    uid: str | None = None,
    resource_version: str | None = None,
    grace_period_s: int | None = None,
    propagation: str | None = None,
    dry_run: bool = False,
) -> dict[str, object]:
    preconditions = {
        key: value
        for key, value in (("uid", uid), ("resourceVersion", resource_version))
        if value is not None
    }
    options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _encode(body: Body) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _decoded(request: str, decode: Callable[[bytes], T], body: bytes) -> T:
    """An answer to something that the server has done, whether or not we can read it."""
    try:
        return decode(body)
    except msgspec.DecodeError as error:
        raise Undecodable(request, str(error), maybe_applied=True) from error


def _written(request: str, answer: Answer) -> Written:
    meta = _decoded(request, read_meta, answer.body)
    return Written(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        raw=answer.body,
    )
