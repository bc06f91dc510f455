"""The vocabulary that objects are written in: what the wire carries, and what a CRD says of it.

Objects from outside must stay readable even when they are wrong, so nothing here makes the
decoder stricter: bounds, patterns and enums are facts *about* a field, kept in its `Meta` for
the CRD generator (`stromboli.api.crds`), and admission and the API server enforce them.

Three rules keep equal objects equal as bytes too (msgspec omits a default by identity):
a field's default is Go's zero value; a default of the CRD is a fact in `Meta`; and a part
that Go holds by value has a `default_factory`.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias, dataclass_transform

import msgspec

__all__ = [
    "ATOMIC_LIST",
    "ATOMIC_MAP",
    "QUANTITY",
    "REQUIRED",
    "Int32",
    "Int64",
    "OpaqueObject",
    "QuantityText",
    "ResourceList",
    "Shape",
    "Timestamp",
    "allowed",
    "one_of",
]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _ShapeMeta(msgspec.StructMeta):
    """Makes every subclass keyword-only, which msgspec does not inherit, and says so to pyright."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_ShapeMeta":
        return super().__new__(mcs, name, bases, namespace, kw_only=True, **options)


class Shape(
    msgspec.Struct,
    metaclass=_ShapeMeta,
    frozen=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    rename="camel",
    gc=False,  # such trees cannot hold cycles, and there are millions of them
):
    """A part of an object: immutable, camelCase on the wire, blind to fields it does not name."""


REQUIRED: Final = "required"
"""Key in `Meta.extra`: the CRD requires the field, although decoding does not."""

QUANTITY: Final = "quantity"
"""Key in `Meta.extra`: the field is a Kubernetes quantity."""


def allowed(*, required: bool = False, **facts: object) -> msgspec.Meta:
    """What the CRD allows in a field, in the words of OpenAPI: `minimum`, `pattern`, `default`…"""
    return msgspec.Meta(
        extra_json_schema=facts or None, extra={REQUIRED: True} if required else None
    )


def one_of(values: type[StrEnum], *, required: bool = False, **facts: object) -> msgspec.Meta:
    """The CRD allows the values of an enum; the field itself stays text and holds whatever came."""
    return allowed(required=required, enum=[value.value for value in values], **facts)


ATOMIC_LIST: Final = msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "atomic"})
ATOMIC_MAP: Final = msgspec.Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})

Int32: TypeAlias = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int32"})]
Int64: TypeAlias = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int64"})]

Timestamp: TypeAlias = Annotated[
    str | None, msgspec.Meta(extra_json_schema={"format": "date-time"})
]
"""RFC 3339 text, read by `stromboli.api.timestamps`. None, since Go writes null for a zero time."""

QuantityText: TypeAlias = Annotated[str | int | float, msgspec.Meta(extra={QUANTITY: True})]
"""A quantity as it was written; `parse_quantity` reads it. Custom resources keep plain numbers."""

ResourceList: TypeAlias = dict[str, QuantityText]

OpaqueObject: TypeAlias = dict[str, Any]
"""A part that we pass on whole, with the fields we do not know."""
