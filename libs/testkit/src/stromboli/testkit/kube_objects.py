"""Objects in a cluster, made directly at the API server, as a user or an operator would."""

import secrets
from dataclasses import dataclass
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.api.kinds import Kind
from stromboli.kube import KubeClient
from stromboli.kube.wire import PatchType, Written

__all__ = ["ClusterBuilder", "owned_by", "pod_manifest"]

_MANAGER = "testkit"


def pod_manifest(name: str, *, namespace: str = "", **spec: Any) -> dict[str, Any]:
    """A small pod for our scheduler."""
    metadata: dict[str, Any] = {"name": name, "labels": {"app": "test"}}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "schedulerName": "volcano",
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            **spec,
        },
    }


def owned_by(manifest: dict[str, Any], owner: Written, kind: Kind[Any]) -> dict[str, Any]:
    """The same manifest with a controller owner."""
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {**manifest["metadata"], "ownerReferences": [reference]}
    return {**manifest, "metadata": metadata}


@dataclass
class ClusterBuilder:
    """Makes objects in one namespace of one API server."""

    kube: KubeClient
    namespace: str

    async def make(self, token: str, manifest: dict[str, Any]) -> Written:
        kind = kinds.by_token(token)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        namespace = self.namespace if kind.namespaced else None
        return await self.kube.create(kind, namespace, body, field_manager=_MANAGER)

    async def pod(self, name: str, **spec: Any) -> Written:
        return await self.make("pod", pod_manifest(name, **spec))

    async def node(self, name: str = "") -> str:
        """A node of a name that no other test uses; returns the name."""
        unique = name or f"node-{secrets.token_hex(4)}"
        await self.make("node", {"metadata": {"name": unique}})
        return unique

    async def queue(self, name: str = "") -> str:
        unique = name or f"queue-{secrets.token_hex(4)}"
        await self.make("queue", {"metadata": {"name": unique}, "spec": {"weight": 1}})
        return unique

    async def job(self, name: str, **spec: Any) -> Written:
        template = {"spec": pod_manifest("x")["spec"]}
        tasks = [{"name": "main", "replicas": 1, "template": template}]
        return await self.make(
            "vcjob", {"metadata": {"name": name}, "spec": {"tasks": tasks, **spec}}
        )

    async def label(self, token: str, name: str, **labels: str | None) -> Written:
        kind = kinds.by_token(token)
        return await self.kube.patch(
            kind,
            self.namespace if kind.namespaced else None,
            name,
            {"metadata": {"labels": labels}},
            patch_type=PatchType.MERGE,
            field_manager=_MANAGER,
        )

    async def change(
        self, token: str, name: str, body: dict[str, Any], *, subresource: str = ""
    ) -> Written:
        """A merge patch."""
        kind = kinds.by_token(token)
        return await self.kube.patch(
            kind,
            self.namespace if kind.namespaced else None,
            name,
            body,
            patch_type=PatchType.MERGE,
            subresource=subresource,
            field_manager=_MANAGER,
        )

    async def delete(self, token: str, name: str, *, grace_period_s: int | None = 0) -> None:
        kind = kinds.by_token(token)
        namespace = self.namespace if kind.namespaced else None
        await self.kube.delete(kind, namespace, name, grace_period_s=grace_period_s)

    async def fetch(self, token: str, name: str) -> dict[str, Any] | None:
        kind = kinds.by_token(token)
        namespace = self.namespace if kind.namespaced else None
        raw = await self.kube.get_or_none(kind, namespace, name)
        return None if raw is None else msgspec.json.decode(raw)

    async def names(self, token: str) -> dict[str, str]:
        """Name → uid of everything of a kind in the namespace."""
        kind = kinds.by_token(token)
        namespace = self.namespace if kind.namespaced else None
        found: dict[str, str] = {}
        async for page in self.kube.list_pages(kind, namespace=namespace):
            for raw in page.items:
                metadata = msgspec.json.decode(raw)["metadata"]
                found[metadata["name"]] = metadata["uid"]
        return found
