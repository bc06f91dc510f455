"""OpenAPI, as far as clients use it: which verbs and options there are, and what fields are called.

kubectl reads it to decide who validates (the server, if `fieldValidation` is offered), how to
patch (strategically, if that is offered), and what `explain` tells. Documents are made when they
are asked for; there is one for each group and version, and one in the older style for all.
"""

from collections.abc import Iterable
from typing import Any, Final

from stromboli.sandbox.documents import Document
from stromboli.sandbox.patches import PATCHES_OF_BUILT_IN, PATCHES_OF_CUSTOM
from stromboli.sandbox.resources import Served
from stromboli.sandbox.shapes.shape import Shape, built_in_shape

__all__ = ["group_version_path", "v2_document", "v3_document"]

_INFO: Final = {"title": "Kubernetes", "version": "v1.35.8"}
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_PREFIX: Final = "io.k8s.api."
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SHARED: Final[dict[str, Document]] = {
    _QUANTITY: {
        "description": "A fixed-point number with an optional suffix: 500m, 2, 1Gi.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    _INT_OR_STRING: {
        "description": "A number, or text such as a percentage or the name of a port.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}
_VALUES: Final[dict[str, Document]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "number": {"type": "number"},
    "time": {"type": "string", "format": "date-time"},
}
_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def group_version_path(served: Served) -> str:
    group = served.resource.group
    return f"apis/{group}/{served.version}" if group else f"api/{served.version}"


def v3_document(rows: Iterable[Served]) -> Document:
    """The document of one group and version."""
    paths: Document = {}
    schemas = _Schemas(_V3)
    for served in rows:
        kind = _kind(served)
        schemas.add_kind(served, kind)
        body = {"$ref": f"{_V3}{_component(served)}"}
        collection, item = _paths(served)
        paths[collection] = _operations(served, kind, body, ("list", "create"))
        paths[item] = _operations(served, kind, body, ("get", "update", "patch", "delete"))
    return {
        "openapi": "3.0.0",
        "info": dict(_INFO),
        "paths": paths,
        "components": {"schemas": schemas.made},
    }


def v2_document(rows: Iterable[Served]) -> Document:
    """Everything in the older style: the definitions, without paths."""
    schemas = _Schemas(_V2)
    for served in rows:
        schemas.add_kind(served, _kind(served))
    return {"swagger": "2.0", "info": dict(_INFO), "paths": {}, "definitions": schemas.made}


def _kind(served: Served) -> Document:
    resource = served.resource
    return {"group": resource.group, "version": served.version, "kind": resource.kind}


def _component(served: Served) -> str:
    resource = served.resource
    if not resource.custom and built_in_shape(resource.kind) is not None:
        return f"{_PREFIX}{resource.kind}"
    reverse = ".".join(reversed(resource.group.split(".")))
    return f"{reverse}.{served.version}.{resource.kind}"


def _paths(served: Served) -> tuple[str, str]:
    resource = served.resource
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{group_version_path(served)}{scope}/{resource.plural}"
    return collection, f"{collection}/{{name}}"


_METHODS: Final = {
    "list": "get",
    "create": "post",
    "get": "get",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
}
_OPTIONS: Final = ("dryRun", "fieldManager", "fieldValidation")


def _operations(
    served: Served, kind: Document, body: Document, verbs: tuple[str, ...]
) -> dict[str, Document]:
    patches = PATCHES_OF_CUSTOM if served.resource.custom else PATCHES_OF_BUILT_IN
    operations: dict[str, Document] = {}
    for verb in verbs:
        if verb not in served.resource.verbs:
            continue
        operation: Document = {
            "operationId": f"{verb}{served.resource.kind}",
            "x-kubernetes-action": "post" if verb == "create" else verb,
            "x-kubernetes-group-version-kind": kind,
            "responses": {
                "200": {"description": "OK", "content": {"application/json": {"schema": body}}}
            },
        }
        if verb in {"create", "update", "patch"}:
            operation["parameters"] = [
                {"name": name, "in": "query", "schema": {"type": "string"}} for name in _OPTIONS
            ]
            formats = tuple(patches) if verb == "patch" else ("application/json",)
            schema = {"type": "object"} if verb == "patch" else body
            operation["requestBody"] = {"content": {name: {"schema": schema} for name in formats}}
        operations[_METHODS[verb]] = operation
    return operations


class _Schemas:
    """The schemas of one document: those of its kinds and of everything they refer to."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.made: dict[str, Document] = {}

    def add_kind(self, served: Served, kind: Document) -> None:
        name = _component(served)
        shape = None if served.resource.custom else built_in_shape(served.resource.kind)
        if shape is not None:
            self._object(shape)
        else:
            self.made[name] = self._custom(served.schema or dict(_OPEN))
        self.made[name] = {**self.made[name], "x-kubernetes-group-version-kind": [kind]}

    def _custom(self, schema: Document) -> Document:
        """A definition's own schema, with the fields that every object has."""
        result = {**schema, "type": "object"}
        metadata = built_in_shape("ObjectMeta")
        result["properties"] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            **(schema.get("properties") or {}),
            "metadata": self._object(metadata) if metadata is not None else dict(_OPEN),
        }
        return result

    def _object(self, shape: Shape) -> Document:
        """A reference to the schema of an object type, which is made if it is new."""
        name = f"{_PREFIX}{shape.name}"
        if name not in self.made:
            schema: Document = {"type": "object"}
            self.made[name] = schema
            schema["properties"] = {key: self._of(field) for key, field in shape.fields.items()}
            if shape.required:
                schema["required"] = shape.required
        return {"$ref": f"{self._prefix}{name}"}

    def _shared(self, name: str) -> Document:
        self.made.setdefault(name, _SHARED[name])
        return {"$ref": f"{self._prefix}{name}"}

    def _of(self, shape: Shape) -> Document:
        match shape.kind:
            case "object":
                return self._marked(self._object(shape), shape)
            case "list" if shape.item is not None:
                return self._marked({"type": "array", "items": self._of(shape.item)}, shape)
            case "map" if shape.item is not None:
                return {"type": "object", "additionalProperties": self._of(shape.item)}
            case "value" if shape.name == "quantity":
                return self._shared(_QUANTITY)
            case "value" if shape.name == "intstr":
                return self._shared(_INT_OR_STRING)
            case "value":
                return dict(_VALUES[shape.name])
            case _:
                return dict(_OPEN)

    def _marked(self, schema: Document, shape: Shape) -> Document:
        """With the words that tell clients how to merge."""
        marks: dict[str, Any] = {}
        if shape.retains_named and shape.merge_key is None:
            marks["x-kubernetes-patch-strategy"] = "retainKeys"
        elif shape.merge_key is not None:
            retains = ",retainKeys" if shape.retains_named else ""
            marks["x-kubernetes-patch-strategy"] = f"merge{retains}"
        if shape.merge_key:
            marks["x-kubernetes-patch-merge-key"] = shape.merge_key
        if shape.list_keys:
            marks["x-kubernetes-list-type"] = "map"
            marks["x-kubernetes-list-map-keys"] = list(shape.list_keys)
        elif shape.list_keys is not None:
            marks["x-kubernetes-list-type"] = "set"
        if shape.kind == "object" and marks and self._prefix == _V3:
            return {"allOf": [schema], **marks}
        return {**schema, **marks}
