"""Services, leases, events, budgets and jobs: kinds with a few rules each."""

from typing import Any, Final

import msgspec

from stromboli.sandbox import causes
from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.kinds.pod_shape import QuantityShape
from stromboli.sandbox.kinds.quantities import canonicalise

__all__ = ["CLAIMS", "EVENTS", "LEASES", "SERVICES", "WITH_SPEC"]

_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


class ServicePortShape(msgspec.Struct, rename="camel"):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    target_port: int | str | None = None
    node_port: int | None = None


class ServiceSpecShape(msgspec.Struct, rename="camel"):
    type: str | None = None
    selector: dict[str, str] | None = None
    ports: list[ServicePortShape] | None = None
    publish_not_ready_addresses: bool | None = None


class ServiceShape(msgspec.Struct):
    spec: ServiceSpecShape | None = None
    status: dict[str, Any] | None = None


class LeaseSpecShape(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseShape(msgspec.Struct):
    spec: LeaseSpecShape | None = None


class EventShape(msgspec.Struct, rename="camel"):
    involved_object: dict[str, Any] | None = None
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None
    source: dict[str, Any] | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: dict[str, Any] | None = None
    action: str | None = None
    related: dict[str, Any] | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


class SpecShape(msgspec.Struct):
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class ClaimResourcesShape(msgspec.Struct):
    requests: dict[str, QuantityShape] | None = None
    limits: dict[str, QuantityShape] | None = None


class ClaimSpecShape(msgspec.Struct, rename="camel"):
    access_modes: list[str] | None = None
    resources: ClaimResourcesShape | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None


class ClaimShape(msgspec.Struct):
    spec: ClaimSpecShape | None = None
    status: dict[str, Any] | None = None


def _default_service(service: Document) -> None:
    spec = service["spec"] = dict(service.get("spec") or {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] != "ExternalName":
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    service.setdefault("status", {"loadBalancer": {}})


def _service_causes(service: Document) -> list[Cause]:
    found: list[Cause] = []
    spec = service["spec"]
    if spec["type"] not in _SERVICE_TYPES:
        found.append(causes.not_supported("spec.type", spec["type"], _SERVICE_TYPES))
    ports: list[Document] = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and spec["type"] != "ExternalName":
        found.append(causes.required("spec.ports"))
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        number = port.get("port", 0)
        if not isinstance(number, int) or not 1 <= number <= 65535:
            detail = "must be between 1 and 65535, inclusive"
            found.append(causes.invalid(f"{field}.port", number, detail))
        if len(ports) > 1 and not port.get("name"):
            found.append(causes.required(f"{field}.name"))
        if port["protocol"] not in _PROTOCOLS:
            field = f"{field}.protocol"
            found.append(causes.not_supported(field, port["protocol"], _PROTOCOLS))
    return found


def _lease_causes(lease: Document) -> list[Cause]:
    found: list[Cause] = []
    spec = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        detail = "must be greater than 0"
        found.append(causes.invalid("spec.leaseDurationSeconds", duration, detail))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        found.append(causes.invalid("spec.leaseTransitions", transitions, detail))
    return found


def _event_causes(event: Document) -> list[Cause]:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace") or "default"
    if about != namespace:
        value = (event.get("involvedObject") or {}).get("namespace", "")
        detail = "does not match event.namespace"
        return [causes.invalid("involvedObject.namespace", value, detail)]
    return []


def _drop_status(document: Document) -> None:
    document.pop("status", None)


def _default_claim(claim: Document) -> None:
    spec = claim["spec"] = dict(claim.get("spec") or {})
    spec.setdefault("volumeMode", "Filesystem")
    canonicalise((spec.get("resources") or {}).get("requests"), "PersistentVolumeClaim")


def _begin_claim(claim: Document) -> None:
    claim["status"] = {"phase": "Pending"}


SERVICES: Final = Behaviour(shape=ServiceShape, default=_default_service, validate=_service_causes)
LEASES: Final = Behaviour(shape=LeaseShape, validate=_lease_causes)
EVENTS: Final = Behaviour(shape=EventShape, validate=_event_causes)
CLAIMS: Final = Behaviour(shape=ClaimShape, default=_default_claim, prepare_create=_begin_claim)
WITH_SPEC: Final = Behaviour(shape=SpecShape, prepare_create=_drop_status)
"""Kinds that are only stored: their spec and status are objects, no more is said."""
