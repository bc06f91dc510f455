"""Turn a type into the structural schema that apiextensions v1 asks for.

Structural means: every node says its type, nothing is left open except where it is marked so,
and no references. Whatever a `Meta` says in OpenAPI's words is taken over as it stands; the
docstrings of the types become the descriptions that `kubectl explain` shows.
"""

import inspect
from typing import Any, Final, TypeAlias

from msgspec import inspect as types

from stromboli.api.fieldtypes import QUANTITY, REQUIRED
from stromboli.api.meta import KubeObject, ObjectMeta

__all__ = ["Schema", "schema_of"]

Schema: TypeAlias = dict[str, Any]

_QUANTITY: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    # Kubernetes' own, from the schema of resource.Quantity.
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "x-kubernetes-int-or-string": True,
}
_SCALARS: Final[dict[type[types.Type], str]] = {
    types.StrType: "string",
    types.BoolType: "boolean",
    types.IntType: "integer",
}
_TYPE_META: Final[Schema] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def schema_of(type_: type[KubeObject]) -> Schema:
    """The openAPIV3Schema of a whole object."""
    schema = _schema(types.type_info(type_))
    return schema | {"properties": _TYPE_META | schema["properties"]}


def _schema(type_: types.Type) -> Schema:
    match type_:
        case types.Metadata(type=inner, extra_json_schema=facts, extra=marks):
            if (marks or {}).get(QUANTITY):
                return dict(_QUANTITY)
            return _schema(inner) | (facts or {})
        case types.UnionType(types=options):
            return _schema(_only_option(options))
        case types.StructType(cls=cls) if cls is ObjectMeta:
            return {"type": "object"}  # the API server knows it, and accepts nothing more here
        case types.StructType():
            return _object(type_)
        case types.DictType(value_type=types.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case types.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case types.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema(item)}
        case _:
            if type(type_) not in _SCALARS:
                raise NotImplementedError(f"no structural schema is defined for {type_!r}")
            return {"type": _SCALARS[type(type_)]}


def _object(struct: types.StructType) -> Schema:
    schema: Schema = {}
    if struct.cls.__doc__:
        schema["description"] = " ".join(inspect.cleandoc(struct.cls.__doc__).split())
    schema["type"] = "object"
    required = [part.encode_name for part in struct.fields if _is_required(part.type)]
    if required:
        schema["required"] = required
    schema["properties"] = {part.encode_name: _schema(part.type) for part in struct.fields}
    return schema


def _is_required(type_: types.Type) -> bool:
    return isinstance(type_, types.Metadata) and bool((type_.extra or {}).get(REQUIRED))


def _only_option(options: tuple[types.Type, ...]) -> types.Type:
    """What an optional field holds when it holds something; None is how Go leaves it out."""
    held = [option for option in options if not isinstance(option, types.NoneType)]
    if len(held) != 1:
        raise NotImplementedError(f"a CRD field has one type, but this one allows {held!r}")
    return held[0]
