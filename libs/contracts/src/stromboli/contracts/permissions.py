"""Which service may say what: to Kubernetes through the gateway, and on the bus itself.

Two tables. `ROWS` is what the gateway applies: one row per (service, verb, kind), and for
patches the fields that the service owns. `BUS` is what the NATS server enforces: where each
service may publish and subscribe. The second is made from the first where they overlap, so
that a service that may not ask for a thing can't even put the question on the bus.
"""

from collections.abc import Iterable

import msgspec

from stromboli.contracts.intents import Verb
from stromboli.contracts.leases import LEASE_SUBJECT
from stromboli.contracts.streams import (
    DEAD,
    HISTORY,
    INTENT,
    JOURNAL,
    LEASES,
    OUTCOME,
    STATE,
    STREAMS,
    StreamSpec,
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
    *_may(CONTROLLERS, Verb.CREATE, "networkpolicy", "persistentvolumeclaim", "vcjob"),
    *_may(CONTROLLERS, Verb.CREATE, "queue", "event", ownerless=True),
    *_may(CONTROLLERS, Verb.DELETE, "vcjob", "vcpodgroup", "pod", "configmap", "service"),
    *_may(CONTROLLERS, Verb.DELETE, "secret", "command", "networkpolicy", "persistentvolumeclaim"),
    *_may(CONTROLLERS, Verb.GENERATE, "secret"),
    _owns(CONTROLLERS, "vcjob", "status", subresource="status"),
    _owns(CONTROLLERS, "vcjob", "metadata.annotations"),
    _owns(CONTROLLERS, "configmap", "data"),
    _owns(CONTROLLERS, "vccronjob", "status", subresource="status"),
    _owns(CONTROLLERS, "jobflow", "status", subresource="status"),
    _owns(CONTROLLERS, "jobtemplate", "status", subresource="status"),
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
    _owns(SCHEDULER, "pod", "spec.schedulingGates"),
    _owns(SCHEDULER, "pod", "status.conditions", "status.nominatedNodeName", subresource="status"),
    _owns(SCHEDULER, "queue", "status.allocated", "status.reservation", subresource="status"),
)

DECIDING = tuple(sorted({row.service for row in ROWS}))
"""The services that ask for things, and hear the answers."""

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


def _knowing(*streams: StreamSpec) -> Iterable[str]:
    """To see that a stream is there, and which incarnation of it."""
    return (f"$JS.API.STREAM.INFO.{spec.name}" for spec in streams)


def _reading(stream: StreamSpec, *subjects: str) -> Iterable[str]:
    """To follow a stream, or only some subjects of it.

    The server removes a reader's consumer by itself: nobody may delete those of others.
    """
    yield from _knowing(stream)
    if subjects:
        yield from (f"$JS.API.CONSUMER.CREATE.{stream.name}.*.{subject}" for subject in subjects)
    else:
        yield f"$JS.API.CONSUMER.CREATE.{stream.name}.>"
    # Flow control: "I have taken what you sent, send more".
    yield f"$JS.FC.{stream.name}.>"


def _looking_up(stream: StreamSpec) -> Iterable[str]:
    """To get the newest message of a subject, from the stream's leader.

    The question names the subject in its body, so this right is for the whole stream.
    """
    yield from _knowing(stream)
    yield f"$JS.API.STREAM.MSG.GET.{stream.name}"


def _leading(service: str) -> Iterable[str]:
    """To hold the leases of one service."""
    yield LEASE_SUBJECT.format(service=service, shard=">")
    yield from _looking_up(LEASES)


def _asking(service: str) -> Iterable[str]:
    verbs = {(row.verb, row.kind) for row in ROWS if row.service == service}
    yield from (f"vc.intent.*.{service}.{verb}.{kind}" for verb, kind in sorted(verbs))
    yield f"vc.intent.*.{service}.{Verb.FENCE}.-"


def _deciding(service: str) -> BusRights:
    """Rights of a service with a core: reads facts, asks questions, hears the answers."""
    return BusRights(
        publish=(
            *_asking(service),
            *_leading(service),
            "vc.history.>",
            "vc.dead.>",
            *_reading(STATE),
            *_reading(OUTCOME, f"vc.outcome.{service}.>"),
            *_knowing(*STREAMS),
        ),
        subscribe=(f"{inbox_prefix(service)}.>",),
    )


def _applying() -> Iterable[str]:
    """To own INTENT: take over, acknowledge, and read the leases of those who ask."""
    yield from _reading(INTENT)
    yield f"$JS.API.CONSUMER.NAMES.{INTENT.name}"
    yield f"$JS.API.CONSUMER.DELETE.{INTENT.name}.*"
    yield f"$JS.ACK.{INTENT.name}.>"


BUS: dict[str, BusRights] = {
    GATEWAY: BusRights(
        publish=(
            "vc.state.>",
            "vc.journal.>",
            "vc.outcome.>",
            "vc.history.>",
            "vc.dead.>",
            *_leading(GATEWAY),
            *_applying(),
            *_reading(STATE),
            *_reading(OUTCOME),
            *_looking_up(STATE),
            *_looking_up(OUTCOME),
            *(f"$JS.API.STREAM.CREATE.{spec.name}" for spec in (*STREAMS, JOURNAL)),
            *(f"$JS.API.STREAM.UPDATE.{spec.name}" for spec in (*STREAMS, JOURNAL)),
            *_knowing(*STREAMS, JOURNAL),
        ),
        subscribe=(f"{inbox_prefix(GATEWAY)}.>",),
    ),
    CONTROLLERS: _deciding(CONTROLLERS),
    SCHEDULER: _deciding(SCHEDULER),
    ADMISSION: BusRights(
        publish=("vc.history.>", "vc.dead.>", *_reading(STATE), *_knowing(*STREAMS)),
        subscribe=(f"{inbox_prefix(ADMISSION)}.>",),
    ),
    OPERATOR: BusRights(
        publish=(
            *(
                right
                for stream in (STATE, JOURNAL, OUTCOME, HISTORY, DEAD)
                for right in _reading(stream)
            ),
            *_knowing(*STREAMS),
        ),
        # A consumer on INTENT, a work queue, would take intents away from the gateway; a
        # plain subscription sees them pass.
        subscribe=(f"{inbox_prefix(OPERATOR)}.>", "vc.intent.>"),
    ),
}
