"""What every object carries: its metadata, its owners, its conditions.

managedFields are not here on purpose: they are the largest part of many objects, they change
with every write, and nobody decides by them. `kind` and `apiVersion` are not fields of our
objects either, because lists leave them out where watches do not; the registry
(`stromboli.api.kinds`) knows them.
"""

from typing import Annotated

from msgspec import field

from stromboli.api.fieldtypes import Int64, Shape, Timestamp, allowed

__all__ = ["Condition", "KubeObject", "ObjectMeta", "OwnerReference", "PartialObject", "TypeMeta"]


class OwnerReference(Shape):
    """Who an object belongs to, in the same namespace or cluster-wide."""

    api_version: Annotated[str, allowed(required=True)] = ""
    kind: Annotated[str, allowed(required=True)] = ""
    name: Annotated[str, allowed(required=True)] = ""
    uid: Annotated[str, allowed(required=True)] = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Shape):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Timestamp = None
    deletion_timestamp: Timestamp = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(Shape):
    """A condition of any kind of object; heartbeat and probe times are noise and left out."""

    type: Annotated[str, allowed(required=True)] = ""
    status: Annotated[str, allowed(required=True)] = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp = None


class TypeMeta(Shape):
    """Which kind a piece of JSON claims to be."""

    api_version: str = ""
    kind: str = ""


class KubeObject(Shape):
    """Any object of the registry; subclasses add what is theirs."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class PartialObject(TypeMeta):
    """The part of an object that can be read without knowing its kind."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
