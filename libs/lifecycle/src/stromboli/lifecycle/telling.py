"""Events on the objects that controllers look after, for the people who describe them.

The name of an event is made from what it says and about which object, so that telling it
twice is telling it once.
"""

from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from stromboli.api.core import Event, EventSource, ObjectReference
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import EVENT, kind_of
from stromboli.api.meta import KubeObject, ObjectMeta
from stromboli.api.timestamps import format_time
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.manifests import compact_manifest

__all__ = ["tell", "warn"]

_COMPONENT: Final = "vc-controller-manager"
_LONGEST_MESSAGE: Final = 1000
_LONGEST_NAME: Final = 230
_WITHOUT_NAMESPACE: Final = "default"
"""Where Kubernetes keeps the events of objects that belong to the whole cluster."""


def tell(
    asker: Asker, about: KubeObject, reason: str, message: str, *, now: float, once_for: str = ""
) -> None:
    """A Normal event. `once_for` tells apart what happens more than once in the same words."""
    _event(asker, about, "Normal", (reason, message, once_for), now=now)


def warn(
    asker: Asker, about: KubeObject, reason: str, message: str, *, now: float, once_for: str = ""
) -> None:
    """A Warning event."""
    _event(asker, about, "Warning", (reason, message, once_for), now=now)


def _event(
    asker: Asker, about: KubeObject, kind: str, said: tuple[str, str, str], *, now: float
) -> None:
    asker.create(EVENT.token, _manifest(about, kind, said, now=now))


def _manifest(
    about: KubeObject, type_: str, said: tuple[str, str, str], *, now: float
) -> OpaqueObject:
    reason, message, once_for = said
    metadata = about.metadata
    what = repr((metadata.uid, type_, reason, message, once_for))
    digest = blake2b(what.encode(), digest_size=8).hexdigest()
    moment = format_time(datetime.fromtimestamp(now, UTC))
    kind = kind_of(about)
    event = Event(
        metadata=ObjectMeta(
            name=f"{metadata.name[:_LONGEST_NAME].rstrip('-.')}.{digest}",
            namespace=metadata.namespace or _WITHOUT_NAMESPACE,
        ),
        involved_object=ObjectReference(
            api_version=kind.api_version,
            kind=kind.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        ),
        type=type_,
        reason=reason,
        message=message[:_LONGEST_MESSAGE],
        count=1,
        source=EventSource(component=_COMPONENT),
        first_timestamp=moment,
        last_timestamp=moment,
        reporting_component=_COMPONENT,
    )
    return compact_manifest(event)
