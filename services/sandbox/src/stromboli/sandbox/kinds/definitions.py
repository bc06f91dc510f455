"""CustomResourceDefinitions: which are accepted, and what their status says.

Names are accepted and the definition is established in the same write: there is one server and
nothing to wait for. The catalogue reads stored definitions and serves what they describe.
"""

import re
from typing import Any, Final

import msgspec

from stromboli.sandbox import causes
from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.names import label_1035_problems, subdomain_problems

__all__ = ["CLEANUP_FINALIZER", "DEFINITIONS", "DEFINITIONS_KEY"]

DEFINITIONS_KEY: Final = "apiextensions.k8s.io/customresourcedefinitions"
CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"

_SCHEMA_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_VERSION_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class NamesShape(msgspec.Struct, rename="camel"):
    plural: str | None = None
    singular: str | None = None
    kind: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


_KEYWORDS: Final = {
    "negated": "not",
    "list_type": "x-kubernetes-list-type",
    "list_keys": "x-kubernetes-list-map-keys",
    **{
        name: re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
        for name in (
            "one_of", "any_of", "all_of", "additional_properties", "min_length", "max_length",
            "min_items", "max_items", "min_properties", "max_properties", "multiple_of",
        )
    },
}  # fmt: skip


class SchemaShape(msgspec.Struct, rename=_KEYWORDS):
    """Types of the keywords the compiler reads: what passes here cannot break a later write."""

    type: str | None = None
    format: str | None = None
    nullable: bool | None = None
    pattern: str | None = None
    enum: list[Any] | None = None
    required: list[str] | None = None
    properties: "dict[str, SchemaShape] | None" = None
    items: "SchemaShape | None" = None
    minimum: float | None = None
    maximum: float | None = None
    negated: "SchemaShape | None" = None
    one_of: "list[SchemaShape] | None" = None
    any_of: "list[SchemaShape] | None" = None
    all_of: "list[SchemaShape] | None" = None
    additional_properties: "bool | SchemaShape | None" = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    multiple_of: float | None = None
    list_type: str | None = None
    list_keys: list[str] | None = None


class SchemaHolderShape(msgspec.Struct, rename={"schema": "openAPIV3Schema"}):
    schema: SchemaShape | None = None


class VersionShape(msgspec.Struct, rename="camel"):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    schema: SchemaHolderShape | None = None
    subresources: dict[str, Any] | None = None
    additional_printer_columns: list[dict[str, Any]] | None = None
    selectable_fields: list[dict[str, str]] | None = None


class DefinitionSpecShape(msgspec.Struct, rename="camel"):
    group: str | None = None
    scope: str | None = None
    names: NamesShape | None = None
    versions: list[VersionShape] | None = None


class DefinitionShape(msgspec.Struct):
    spec: DefinitionSpecShape | None = None
    status: dict[str, Any] | None = None


def _default(definition: Document) -> None:
    spec = definition["spec"] = dict(definition.get("spec") or {})
    names = spec["names"] = dict(spec.get("names") or {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("versions", [])
    spec.setdefault("conversion", {"strategy": "None"})


def _establish(definition: Document) -> None:
    spec, since = definition["spec"], definition["metadata"]["creationTimestamp"]
    definition["status"] = {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": since,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": since,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "acceptedNames": spec["names"],
        "storedVersions": [v.get("name") for v in spec["versions"] if v.get("storage")],
    }


def _follow(new: Document, old: Document) -> None:
    """After an update the status names what is served now and what was ever stored."""
    status = new["status"] = dict(old.get("status") or {})
    status["acceptedNames"] = new["spec"]["names"]
    stored = list(status.get("storedVersions") or ())
    for version in new["spec"]["versions"]:
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version.get("name"))
    status["storedVersions"] = stored


def _mark_terminating(definition: Document) -> None:
    finalizers = definition["metadata"].setdefault("finalizers", [])
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)


def _causes(definition: Document) -> list[Cause]:
    found: list[Cause] = []
    spec, names = definition["spec"], definition["spec"]["names"]
    group, plural = spec.get("group") or "", names.get("plural") or ""
    name = definition["metadata"].get("name", "")
    if name != f"{plural}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        found.append(causes.invalid("metadata.name", name, detail))
    if not group:
        found.append(causes.required("spec.group"))
    else:
        found += [causes.invalid("spec.group", group, p) for p in subdomain_problems(group)]
    scope = spec.get("scope")
    if not scope:
        found.append(causes.required("spec.scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        found.append(causes.not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    for index, version in enumerate(spec["versions"]):
        _version_causes(version, f"spec.versions[{index}]", found)
    if sum(1 for version in spec["versions"] if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        found.append(causes.invalid("spec.versions", spec["versions"] or None, detail))
    for key in ("plural", "singular", "kind", "listKind"):
        value = names.get(key)
        if not value:
            found.append(causes.required(f"spec.names.{key}"))
        else:
            problems = label_1035_problems(value.lower())
            found += [causes.invalid(f"spec.names.{key}", value, p) for p in problems]
    return found


def _version_causes(version: Document, path: str, found: list[Cause]) -> None:
    name = version.get("name") or ""
    if not _VERSION_NAME.fullmatch(name):
        detail = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
        found.append(causes.invalid(f"{path}.name", name, detail))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    field = f"{path}.schema.openAPIV3Schema"
    if schema is None:
        found.append(causes.required(field))
    elif schema.get("type") != "object":
        detail = "must be object at the root"
        found.append(causes.invalid(f"{field}.type", schema.get("type", ""), detail))
    else:
        _schema_causes(schema, field, found)


def _schema_causes(schema: Any, path: str, found: list[Cause]) -> None:
    """The rules of structural schemas that keep the compiler and every later write safe."""
    if not isinstance(schema, dict):
        found.append(causes.invalid(path, schema, "must be a schema object"))
        return
    kind = schema.get("type")
    untyped = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if kind is None and not untyped:
        found.append(
            causes.required(f"{path}.type", "must not be empty for specified object fields")
        )
    elif kind is not None and kind not in _SCHEMA_TYPES:
        found.append(causes.not_supported(f"{path}.type", kind, _SCHEMA_TYPES))
    if schema.get("uniqueItems") is True:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(causes.forbidden(f"{path}.uniqueItems", detail))
    if kind == "array" and "items" not in schema:
        found.append(causes.required(f"{path}.items", "must be specified"))
    for field, child in _children(schema, path, found):
        _schema_causes(child, field, found)


def _children(schema: Document, path: str, found: list[Cause]) -> list[tuple[str, Any]]:
    children: list[tuple[str, Any]] = []
    properties = schema.get("properties")
    if isinstance(properties, dict):
        children += [(f"{path}.properties[{name}]", child) for name, child in properties.items()]
    elif properties is not None:
        found.append(causes.invalid(f"{path}.properties", "", "must be a map of schemas"))
    additional = schema.get("additionalProperties")
    if additional is not None and not isinstance(additional, bool):
        children.append((f"{path}.additionalProperties", additional))
    if "items" in schema:
        children.append((f"{path}.items", schema["items"]))
    return children


def _update_causes(new: Document, old: Document) -> list[Cause]:
    return [
        causes.invalid(f"spec.{field}", new["spec"].get(field), "field is immutable")
        for field in ("group", "scope")
        if new["spec"].get(field) != old["spec"].get(field)
    ]


DEFINITIONS: Final = Behaviour(
    shape=DefinitionShape,
    default=_default,
    prepare_create=_establish,
    prepare_update=_follow,
    validate=_causes,
    validate_update=_update_causes,
    mark_deleted=_mark_terminating,
)
