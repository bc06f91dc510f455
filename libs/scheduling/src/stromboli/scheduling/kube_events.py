"""Kubernetes events as intents: what is said about which object.

The name follows from what is said and when, so that an event that is asked for twice is made once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec

from stromboli.api.kinds import Kind
from stromboli.api.timestamps import format_time
from stromboli.contracts.intents import CreateObject, intent_id
from stromboli.contracts.permissions import SCHEDULER

__all__ = ["Said", "event", "reference"]

_COMPONENT: Final = "volcano"
_LONGEST_MESSAGE: Final = 1024
"""The API server refuses longer ones."""
_NO_NAMESPACE: Final = "default"
"""Where Kubernetes keeps the events about objects that are in no namespace."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an event says."""

    type: str
    reason: str
    message: str


def reference(kind: Kind[Any], namespace: str, name: str, uid: str) -> dict[str, str]:
    """What an event is about."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }


def event(
    about: Mapping[str, str], said: Said, now: float, *, key: str, version: str = ""
) -> CreateObject:
    """`version` says which of several equal events it is, where that is not the time."""
    message = said.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE - 1]}…"
    moment = format_time(datetime.fromtimestamp(now, tz=UTC))
    identity = f"{about.get('uid', '')} {said.reason} {message} {version or moment}"
    name = f"{about['name']}.{blake2b(identity.encode(), digest_size=8).hexdigest()}"
    namespace = about.get("namespace") or _NO_NAMESPACE
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {field: text for field, text in about.items() if text},
        "type": said.type,
        "reason": said.reason,
        "message": message,
        "count": 1,
        "source": {"component": _COMPONENT},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "reportingComponent": _COMPONENT,
        "reportingInstance": _COMPONENT,
    }
    return CreateObject(
        id=intent_id(SCHEDULER, "event", namespace, name),
        key=key,
        service=SCHEDULER,
        kind="event",
        namespace=namespace,
        name=name,
        manifest=msgspec.json.encode(manifest),
    )
