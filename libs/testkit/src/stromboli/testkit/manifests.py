"""The smallest objects an API server accepts, to be extended by the test that needs more.

They are plain dictionaries, as a user's YAML would be: a test of an API server must be able to say
what our own types can not, such as a field of the wrong type.
"""

import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

__all__ = [
    "Manifest",
    "config_map",
    "decoded",
    "lease",
    "named",
    "node",
    "pod",
    "pod_group",
    "queue",
    "unique",
    "vc_job",
]

Manifest: TypeAlias = dict[str, Any]


def unique(prefix: str) -> str:
    """A name that no other test uses, for objects without a namespace."""
    return f"{prefix}-{secrets.token_hex(4)}"


def decoded(raw: bytes | msgspec.Raw) -> Manifest:
    """An object as it came from the server."""
    return msgspec.json.decode(raw, type=Manifest)


def named(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    """Any object; `labels` and `annotations` go into its metadata."""
    metadata: Manifest = {"name": name}
    for key in ("labels", "annotations"):
        if key in fields:
            metadata[key] = fields.pop(key)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def config_map(
    name: str, data: Mapping[str, str] | None = None, *, labels: Mapping[str, str] | None = None
) -> Manifest:
    return named("v1", "ConfigMap", name, data=dict(data or {}), labels=dict(labels or {}))


def pod(
    name: str, *, labels: Mapping[str, str] | None = None, node: str | None = None, **spec: Any
) -> Manifest:
    containers = [{"name": "main", "image": "busybox"}]
    merged: Manifest = {"containers": containers, **spec}
    if node is not None:
        merged["nodeName"] = node
    return named("v1", "Pod", name, labels=dict(labels or {}), spec=merged)


def node(name: str, **fields: Any) -> Manifest:
    return named("v1", "Node", name, **fields)


def lease(name: str, **spec: Any) -> Manifest:
    return named("coordination.k8s.io/v1", "Lease", name, spec={"holderIdentity": "x", **spec})


def queue(name: str, **spec: Any) -> Manifest:
    return named("scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec)


def pod_group(name: str, **spec: Any) -> Manifest:
    return named("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec={"minMember": 1, **spec})


def vc_job(name: str, **spec: Any) -> Manifest:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    task = {"name": "worker", "replicas": 1, "template": template}
    return named(
        "batch.volcano.sh/v1alpha1", "Job", name, spec={"minAvailable": 1, "tasks": [task], **spec}
    )
