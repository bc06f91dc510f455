"""Events in Kubernetes' sense: what happened to an object, told to people."""

from msgspec import field

from stromboli.api.fieldtypes import Int32, Shape, Timestamp
from stromboli.api.meta import KubeObject

__all__ = ["Event", "EventSource", "ObjectReference"]


class ObjectReference(Shape):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Shape):
    component: str = ""
    host: str = ""


class Event(KubeObject):
    """core/v1 Event."""

    involved_object: ObjectReference = field(default_factory=ObjectReference)
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: Int32 = 0
    source: EventSource = field(default_factory=EventSource)
    first_timestamp: Timestamp = None
    last_timestamp: Timestamp = None
    event_time: Timestamp = None
    reporting_component: str = ""
    reporting_instance: str = ""
