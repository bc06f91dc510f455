"""Which resources exist: one row per built-in kind, and the shape of the rows CRDs add.

A row is data about a resource; what its kind does differently is its `behaviour`. Facts in the
rows (who returns the deleted object, who may be updated without a resourceVersion …) are those
of the real server and differ for historical reasons only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.documents import Document
from stromboli.sandbox.printing.columns import NAME_AND_AGE, Printer

__all__ = ["DEFAULT_VERBS", "Resource", "Served", "Subresource"]

DEFAULT_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)

_FIELD_DEFAULTS: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    """The version objects are stored in; built-in kinds have no other."""
    singular: str = ""
    list_kind: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = DEFAULT_VERBS
    has_status: bool = False
    has_generation: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    orphan_by_default: bool = False
    """Dependents outlive it unless the delete says otherwise: a custom of old kinds."""
    name_rule: str = "subdomain"
    fields: tuple[str, ...] = ()
    """Selectable fields beside metadata.name and metadata.namespace."""
    subresources: tuple[Subresource, ...] = ()
    behaviour: Behaviour = field(default_factory=Behaviour)
    custom: bool = False
    registry_path: str = ""
    """Where etcd would keep it; appears in one error message of the real server."""

    key: str = field(init=False, default="")
    """The name the store and the journal know it by."""
    api_version: str = field(init=False, default="")
    _field_paths: tuple[tuple[str, tuple[str, ...]], ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        def settle(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        settle("singular", self.singular or self.kind.lower())
        settle("list_kind", self.list_kind or f"{self.kind}List")
        settle("key", f"{self.group}/{self.plural}" if self.group else self.plural)
        settle("api_version", f"{self.group}/{self.version}" if self.group else self.version)
        settle("_field_paths", tuple((path, tuple(path.split("."))) for path in self.fields))

    def field_values(self, document: Document) -> tuple[str, ...]:
        """What field selectors compare, in the order of `fields`."""
        return tuple([_field_text(document, path, parts) for path, parts in self._field_paths])

    def etcd_key(self, namespace: str, name: str) -> str:
        path = self.registry_path or (self.key if self.custom else self.plural)
        parts = ["", "registry", path, namespace, name]
        return "/".join(part for index, part in enumerate(parts) if part or index == 0)


def _field_text(document: Document, path: str, parts: tuple[str, ...]) -> str:
    value: Any = document
    for part in parts:
        if not isinstance(value, dict):
            value = None
            break
        value = value.get(part)
    if value is None or value == "":
        return _FIELD_DEFAULTS.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A resource as one of its versions shows it."""

    resource: Resource
    version: str
    behaviour: Behaviour
    has_status: bool
    subresources: Sequence[Subresource] = ()
    printer: Printer = NAME_AND_AGE
    schema: Document | None = None
    """A custom resource's own, as its definition has it."""

    api_version: str = field(init=False, default="")

    def __post_init__(self) -> None:
        group = self.resource.group
        api_version = f"{group}/{self.version}" if group else self.version
        object.__setattr__(self, "api_version", api_version)

    @property
    def is_storage_version(self) -> bool:
        return self.version == self.resource.version

    def body(self, stored: bytes) -> bytes:
        """A stored object as this version shows it: without a conversion only its apiVersion."""
        if self.is_storage_version:
            return stored
        prefix = len(f'{{"apiVersion":"{self.resource.api_version}"')
        return f'{{"apiVersion":"{self.api_version}"'.encode() + stored[prefix:]
