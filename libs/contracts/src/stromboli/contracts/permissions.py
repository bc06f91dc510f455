"""Which service may say what: to Kubernetes through the gateway, and on the bus itself.

Two tables. `ROWS` is what the gateway applies: one row per (service, verb, kind), and for
patches the fields that the service owns. `BUS` is what the NATS server enforces: where each
service may publish and subscribe. The second is made from the first where they overlap, so
that a service that may not ask for a thing can't even put the question on the bus.
"""

from collections.abc import Iterable

import msgspec

from stromboli.contracts.intents import Verb
from stromboli.contracts.streams import (
    DEAD,
    FENCES,
    HISTORY,
    INTENT,
    JOURNAL,
    LEASES,
    OUTCOME,
    STATE,
    STREAMS,
)

GATEWAY = "gateway"
CONTROLLERS = "controllers"
SCHEDULER = "scheduler"
ADMISSION = "admission"
OPERATOR = "operator"
"""Not a service: a person with `vcctl bus tail`, who reads and never writes."""

SERVICES = (GATEWAY, CONTROLLERS, SCHEDULER, ADMISSION, OPERATOR)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """This service may ask the gateway for this verb on this kind."""

    service: str
    verb: Verb
    kind: str
    subresource: str = ""
    fields: tuple[str, ...] = ()
    """For patches: dotted paths of the fields that the service owns."""
    ownerless: bool = False
    """For creates: the object needs no owner (it belongs to the cluster or to an event)."""


def _may(service: str, verb: Verb, *kinds: str, ownerless: bool = False) -> list[Row]:
    return [Row(service=service, verb=verb, kind=kind, ownerless=ownerless) for kind in kinds]


def _owns(service: str, kind: str, *fields: str, subresource: str = "") -> Row:
    return Row(service=service, verb=Verb.PATCH, kind=kind, subresource=subresource, fields=fields)


ROWS: tuple[Row, ...] = (
    *_may(CONTROLLERS, Verb.CREATE, "vcpodgroup", "pod", "configmap", "service"),
    *_may(CONTROLLERS, Verb.CREATE, "queue", "event", ownerless=True),
    *_may(CONTROLLERS, Verb.DELETE, "vcjob", "vcpodgroup", "pod", "configmap", "service"),
    *_may(CONTROLLERS, Verb.DELETE, "secret", "command"),
    _owns(CONTROLLERS, "vcjob", "status", subresource="status"),
    _owns(CONTROLLERS, "vcpodgroup", "spec", "metadata.labels", "metadata.annotations"),
    _owns(CONTROLLERS, "queue", "spec.parent", "metadata.annotations"),
    _owns(
        CONTROLLERS,
        "queue",
        "status.state",
        "status.pending",
        "status.running",
        "status.unknown",
        "status.inqueue",
        "status.completed",
        subresource="status",
    ),
    _owns(CONTROLLERS, "pod", "metadata.annotations", "metadata.labels"),
    _owns(CONTROLLERS, "event", "count", "lastTimestamp", "message", "series"),
    *_may(SCHEDULER, Verb.BIND, "pod"),
    *_may(SCHEDULER, Verb.EVICT, "pod"),
    *_may(SCHEDULER, Verb.CREATE, "event", ownerless=True),
    _owns(SCHEDULER, "event", "count", "lastTimestamp", "message", "series"),
    _owns(SCHEDULER, "vcpodgroup", "status"),
    _owns(SCHEDULER, "pod", "status.conditions", "status.nominatedNodeName", subresource="status"),
    _owns(SCHEDULER, "queue", "status.allocated", "status.reservation", subresource="status"),
)

_BY_KEY = {(row.service, row.verb, row.kind, row.subresource): row for row in ROWS}


def row_for(service: str, verb: Verb, kind: str, subresource: str = "") -> Row | None:
    """The row that allows this, or None: then it is not allowed."""
    return _BY_KEY.get((service, verb, kind, subresource))


class BusRights(msgspec.Struct, frozen=True, kw_only=True):
    """Where a service may publish and subscribe."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_prefix(service: str) -> str:
    """Replies and deliveries of a service arrive below this; nobody else may listen there."""
    return f"_INBOX.{service}"


def _reading(*streams: str) -> Iterable[str]:
    for name in streams:
        yield f"$JS.API.STREAM.INFO.{name}"
        yield f"$JS.API.CONSUMER.CREATE.{name}.>"
        yield f"$JS.API.CONSUMER.DELETE.{name}.>"
        yield f"$JS.API.CONSUMER.INFO.{name}.>"
        yield f"$JS.API.DIRECT.GET.{name}"
        yield f"$JS.API.DIRECT.GET.{name}.>"
        yield f"$JS.FC.{name}.>"


def _asking(service: str) -> Iterable[str]:
    verbs = {(row.verb, row.kind) for row in ROWS if row.service == service}
    yield from (f"vc.intent.*.{service}.{verb}.{kind}" for verb, kind in sorted(verbs))
    yield f"vc.intent.*.{service}.{Verb.FENCE}.-"


def _deciding(service: str) -> BusRights:
    """Rights of a service with a core: reads facts, asks questions, hears the answers."""
    return BusRights(
        publish=(
            *_asking(service),
            f"$KV.LEASES.{service}.>",
            "vc.history.>",
            "vc.dead.>",
            *_reading(STATE.name, OUTCOME.name, LEASES.name),
            *(f"$JS.API.STREAM.INFO.{spec.name}" for spec in (INTENT, HISTORY, DEAD, JOURNAL)),
        ),
        subscribe=(f"{inbox_prefix(service)}.>",),
    )


def _reader(service: str, *streams: str, publish: tuple[str, ...] = ()) -> BusRights:
    return BusRights(
        publish=(*publish, *_reading(*streams)), subscribe=(f"{inbox_prefix(service)}.>",)
    )


BUS: dict[str, BusRights] = {
    GATEWAY: BusRights(
        publish=(
            "vc.state.>",
            "vc.outcome.>",
            "vc.history.>",
            "vc.dead.>",
            "$KV.LEASES.gateway.>",
            "$KV.FENCES.>",
            *_reading(STATE.name, LEASES.name, FENCES.name, INTENT.name),
            *(f"$JS.API.STREAM.CREATE.{spec.name}" for spec in STREAMS),
            *(f"$JS.API.STREAM.UPDATE.{spec.name}" for spec in STREAMS),
            *(f"$JS.API.STREAM.INFO.{spec.name}" for spec in STREAMS),
            f"$JS.API.CONSUMER.NAMES.{INTENT.name}",
            f"$JS.ACK.{INTENT.name}.>",
        ),
        subscribe=(f"{inbox_prefix(GATEWAY)}.>",),
    ),
    CONTROLLERS: _deciding(CONTROLLERS),
    SCHEDULER: _deciding(SCHEDULER),
    ADMISSION: _reader(ADMISSION, STATE.name, publish=("vc.history.>", "vc.dead.>")),
    OPERATOR: _reader(
        OPERATOR, STATE.name, JOURNAL.name, INTENT.name, OUTCOME.name, HISTORY.name, DEAD.name
    ),
}
"""INTENT is a work queue, on which a second consumer with an overlapping filter is refused,
so the operator sees intents by a plain subscription; see `bus_rights`."""

BUS[OPERATOR] = BusRights(
    publish=BUS[OPERATOR].publish,
    subscribe=(*BUS[OPERATOR].subscribe, "vc.intent.>", "vc.outcome.>", "vc.journal.>"),
)
