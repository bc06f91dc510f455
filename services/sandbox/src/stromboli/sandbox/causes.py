"""What is wrong with a field, in Kubernetes' words.

A cause is one entry of `details.causes` in a 422 Status. Values are rendered as Go's
field.Error does, because people and tests match on these sentences.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = [
    "Cause",
    "duplicate",
    "forbidden",
    "invalid",
    "not_found",
    "not_supported",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
]


class Cause(msgspec.Struct, frozen=True):
    reason: str
    message: str
    field: str


def rendered(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode()


def required(field: str, detail: str = "") -> Cause:
    message = f"Required value: {detail}" if detail else "Required value"
    return Cause("FieldValueRequired", message, field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {rendered(value)}: {detail}", field)


def type_invalid(field: str, actual: str, detail: str) -> Cause:
    return Cause("FieldValueTypeInvalid", f'Invalid value: "{actual}": {detail}', field)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    message = f"Unsupported value: {rendered(value)}: supported values: {choices}"
    return Cause("FieldValueNotSupported", message, field)


def not_found(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {rendered(value)}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {rendered(value)}", field)


def forbidden(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def too_long(field: str, limit: int) -> Cause:
    unit = "byte" if limit == 1 else "bytes"
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} {unit}", field)


def too_many(field: str, actual: int, limit: int) -> Cause:
    unit = "item" if limit == 1 else "items"
    message = f"Too many: {actual}: must have at most {limit} {unit}"
    return Cause("FieldValueTooMany", message, field)
