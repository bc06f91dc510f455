"""What is shown of nodes, namespaces, services, events and the smaller core kinds."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from stromboli.sandbox.documents import Document
from stromboli.sandbox.printing.ages import UNKNOWN, age_of
from stromboli.sandbox.printing.columns import NONE, Cells, Printer, headed, or_none

__all__ = ["CLUSTER_PRINTERS"]

_ROLE_LABEL: Final = "node-role.kubernetes.io/"


def name_of(document: Document) -> str:
    return document["metadata"].get("name", "")


def age(document: Document, now: datetime) -> str:
    return age_of(document["metadata"].get("creationTimestamp"), now)


def _node(node: Document, now: datetime) -> Cells:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    info = status.get("nodeInfo") or {}
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if spec.get("unschedulable"):
        states.append("SchedulingDisabled")
    return [
        name_of(node),
        ",".join(states),
        or_none(",".join(_roles(node["metadata"].get("labels") or {}))),
        age(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: dict[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(role for role in roles if role)


def _address(status: Document, kind: str) -> str:
    found: Iterable[str] = (
        one.get("address", "") for one in status.get("addresses") or () if one.get("type") == kind
    )
    return next(iter(found), NONE)


def _namespace(namespace: Document, now: datetime) -> Cells:
    phase = (namespace.get("status") or {}).get("phase", "")
    return [name_of(namespace), phase, age(namespace, now)]


def _service(service: Document, now: datetime) -> Cells:
    spec = service.get("spec") or {}
    kind = spec.get("type") or "ClusterIP"
    return [
        name_of(service),
        kind,
        or_none(spec.get("clusterIP")),
        _external(service, kind),
        _ports(spec.get("ports") or ()),
        age(service, now),
        selector_text(spec.get("selector")),
    ]


def _external(service: Document, kind: str) -> str:
    spec, status = service.get("spec") or {}, service.get("status") or {}
    if kind == "ExternalName":
        return spec.get("externalName") or NONE
    given: list[str] = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
        found = [one.get("ip") or one.get("hostname") or "" for one in ingress] + given
        return ",".join(found) or "<pending>"
    return ",".join(given) or NONE


def _ports(ports: Iterable[Document]) -> str:
    told = [
        f"{port.get('port')}:{port['nodePort']}/{port.get('protocol', 'TCP')}"
        if port.get("nodePort")
        else f"{port.get('port')}/{port.get('protocol', 'TCP')}"
        for port in ports
    ]
    return ",".join(told) or NONE


def selector_text(labels: Any) -> str:
    """Labels as a selector: sorted, comma-separated."""
    if not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _config_map(document: Document, now: datetime) -> Cells:
    size = len(document.get("data") or ()) + len(document.get("binaryData") or ())
    return [name_of(document), size, age(document, now)]


def _secret(secret: Document, now: datetime) -> Cells:
    size = len(secret.get("data") or ())
    return [name_of(secret), secret.get("type", ""), size, age(secret, now)]


def _event(event: Document, now: datetime) -> Cells:
    about = event.get("involvedObject") or {}
    source = event.get("source") or {}
    series = event.get("series") or {}
    began = event.get("firstTimestamp") or event.get("eventTime")
    ended = series.get("lastObservedTime") or event.get("lastTimestamp") or began
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return [
        age_of(ended, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (event.get("message") or "").strip(),
        age_of(began, now),
        series.get("count") or event.get("count") or 1,
        name_of(event),
    ]


def _lease(lease: Document, now: datetime) -> Cells:
    holder = (lease.get("spec") or {}).get("holderIdentity", "")
    return [name_of(lease), holder, age(lease, now)]


def _priority_class(document: Document, now: datetime) -> Cells:
    return [
        name_of(document),
        document.get("value", 0),
        document.get("globalDefault", False),
        age(document, now),
        document.get("preemptionPolicy", ""),
    ]


def _webhooks(configuration: Document, now: datetime) -> Cells:
    count = len(configuration.get("webhooks") or ())
    return [name_of(configuration), count, age(configuration, now)]


def _endpoints(endpoints: Document, now: datetime) -> Cells:
    places = [
        f"{address.get('ip', '')}:{port.get('port', '')}"
        for subset in endpoints.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    return [name_of(endpoints), _few(places), age(endpoints, now)]


def _slice(endpoints: Document, now: datetime) -> Cells:
    ports = [str(port.get("port", "")) for port in endpoints.get("ports") or ()]
    addresses = [
        address
        for endpoint in endpoints.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    return [
        name_of(endpoints),
        endpoints.get("addressType", ""),
        _few(ports, unset="<unset>"),
        _few(addresses, unset="<unset>"),
        age(endpoints, now),
    ]


def _few(items: list[str], unset: str = NONE) -> str:
    """The first three, and how many more there are."""
    if not items:
        return unset
    told = ",".join(items[:3])
    return f"{told} + {len(items) - 3} more..." if len(items) > 3 else told


def _quota(quota: Document, now: datetime) -> Cells:
    hard = (quota.get("status") or {}).get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used = (quota.get("status") or {}).get("used") or {}
    told = {key: f"{key}: {used.get(key, '0')}/{limit}" for key, limit in sorted(hard.items())}
    limits = [text for key, text in told.items() if key.startswith("limits.")]
    requests = [text for key, text in told.items() if not key.startswith("limits.")]
    return [name_of(quota), ", ".join(requests), ", ".join(limits), age(quota, now)]


def _created(document: Document, _now: datetime) -> Cells:
    return [name_of(document), document["metadata"].get("creationTimestamp")]


_WEBHOOKS: Final = Printer(headed("Name:string:name | Webhooks:integer | Age"), _webhooks)
_CREATED: Final = Printer(headed("Name:string:name | Created At:date"), _created)

CLUSTER_PRINTERS: Final = {
    "nodes": Printer(
        headed(
            "Name:string:name | Status | Roles | Age | Version | Internal-IP:::1 | External-IP:::1"
            " | OS-Image:::1 | Kernel-Version:::1 | Container-Runtime:::1"
        ),
        _node,
    ),
    "namespaces": Printer(headed("Name:string:name | Status | Age"), _namespace),
    "services": Printer(
        headed("Name:string:name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector:::1"),
        _service,
    ),
    "configmaps": Printer(headed("Name:string:name | Data | Age"), _config_map),
    "secrets": Printer(headed("Name:string:name | Type | Data | Age"), _secret),
    "events": Printer(
        headed(
            "Last Seen | Type | Reason | Object | Subobject:::1 | Source:::1 | Message"
            " | First Seen:::1 | Count:::1 | Name:string:name:1"
        ),
        _event,
    ),
    "limitranges": _CREATED,
    "endpoints": Printer(headed("Name:string:name | Endpoints | Age"), _endpoints),
    "discovery.k8s.io/endpointslices": Printer(
        headed("Name:string:name | AddressType | Ports | Endpoints | Age"), _slice
    ),
    "resourcequotas": Printer(headed("Name:string:name | Request | Limit | Age"), _quota),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _WEBHOOKS,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _WEBHOOKS,
    "coordination.k8s.io/leases": Printer(headed("Name:string:name | Holder | Age"), _lease),
    "scheduling.k8s.io/priorityclasses": Printer(
        headed(
            "Name:string:name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy"
        ),
        _priority_class,
    ),
    "apiextensions.k8s.io/customresourcedefinitions": _CREATED,
    "rbac.authorization.k8s.io/roles": _CREATED,
    "rbac.authorization.k8s.io/clusterroles": _CREATED,
}
