"""The two webhook configurations that lead an API server to admission, as data.

Our own kinds are refused while admission is away: a Job that was never defaulted would be worse
than one that has to be sent again. Pods are not, and only those for our schedulers are sent at
all: admission must never keep a cluster from running its other pods. Neither are objects in
kube-system or in our own namespace, where admission itself runs.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.admitting.paths import Path
from stromboli.kube import Resource

__all__ = ["MUTATING", "VALIDATING", "Place", "WebhookPlan", "configurations"]

Manifest: TypeAlias = dict[str, Any]

NAME: Final = "stromboli-admission"
MUTATING: Final = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False
)

_OUR_GROUPS: Final = ".volcano.sh"
_SPEC_ONLY: Final = frozenset({"jobs", "podgroups"})
"""Their rules look at the spec. A PodGroup has no status subresource, so that without the
condition each change of its status would wait for admission, and fail with it."""
_SPEC_CHANGED: Final = "request.operation != 'UPDATE' || object.spec != oldObject.spec"
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an API server finds admission: at a URL, or behind a service."""

    url: str = ""
    service: str = ""
    namespace: str = ""
    port: int = 443

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that the server's certificate must have."""
        if self.url:
            host = self.url.partition("://")[2].partition("/")[0].rpartition(":")[0]
            return (host.strip("[]"),)
        name = f"{self.service}.{self.namespace}.svc"
        return (name, f"{name}.cluster.local")

    def client_config(self, path: str, authorities: bytes) -> Manifest:
        bundle = base64.b64encode(authorities).decode()
        if self.url:
            return {"url": f"{self.url.rstrip('/')}{path}", "caBundle": bundle}
        service = {
            "name": self.service,
            "namespace": self.namespace,
            "path": path,
            "port": self.port,
        }
        return {"service": service, "caBundle": bundle}


class WebhookPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator can say about the configurations."""

    place: Place
    scheduler_names: tuple[str, ...]
    excluded_namespaces: tuple[str, ...]
    timeout_s: int = 5
    every_pod: bool = False
    """Resource groups choose pods by namespace, whatever scheduler they name."""


def configurations(
    plan: WebhookPlan, paths: Iterable[Path], authorities: bytes
) -> list[tuple[Resource, str, Manifest]]:
    """Kind, name and manifest of what should stand at the API server."""
    known = list(paths)
    mutating = [_webhook(plan, path, authorities) for path in known if path.mutates]
    validating = [_webhook(plan, path, authorities) for path in known if not path.mutates]
    return [
        (MUTATING, NAME, _configuration("MutatingWebhookConfiguration", mutating)),
        (VALIDATING, NAME, _configuration("ValidatingWebhookConfiguration", validating)),
    ]


def _configuration(kind: str, webhooks: Sequence[Manifest]) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "stromboli"}},
        "webhooks": list(webhooks),
    }


def _webhook(plan: WebhookPlan, path: Path, authorities: bytes) -> Manifest:
    is_ours = path.resource.group.endswith(_OUR_GROUPS)
    webhook: Manifest = {
        "name": path.webhook,
        "clientConfig": plan.place.client_config(path.path, authorities),
        "rules": [
            {
                "apiGroups": [path.resource.group],
                "apiVersions": [path.resource.version],
                "resources": [path.resource.resource],
                "operations": list(path.operations),
                "scope": "*",
            }
        ],
        "failurePolicy": "Fail" if is_ours else "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": plan.timeout_s,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": _NAMESPACE_LABEL,
                    "operator": "NotIn",
                    "values": list(plan.excluded_namespaces),
                }
            ]
        },
    }
    if path.mutates:
        webhook["reinvocationPolicy"] = "Never"
    if conditions := list(_conditions(plan, path, is_ours=is_ours)):
        webhook["matchConditions"] = conditions
    return webhook


def _conditions(plan: WebhookPlan, path: Path, *, is_ours: bool) -> Iterator[Manifest]:
    if not is_ours and not plan.every_pod:
        names = ", ".join(f"'{name}'" for name in plan.scheduler_names)
        yield {"name": "our-schedulers", "expression": f"object.spec.schedulerName in [{names}]"}
    if path.resource.resource in _SPEC_ONLY and "UPDATE" in path.operations:
        yield {"name": "spec-changed", "expression": _SPEC_CHANGED}
