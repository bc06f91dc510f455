"""Whether a custom resource keeps its schema's rules; every broken one is told in kube's words.

A value of the wrong type is reported once and not measured further, except that its enum and its
branches are still looked at, as the real validator does. Branches (oneOf …) are tried with a
scratch list of causes, and the errors of the first branch are told beside the branch's own.
"""

from typing import Any, Final

from stromboli.sandbox import causes
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, encode, same_document
from stromboli.sandbox.schema.formats import FORMATS
from stromboli.sandbox.schema.node import Node

__all__ = ["validated"]

_MAX_INT64: Final = 2**63 - 1


def validated(value: Any, node: Node, path: str, found: list[Cause], *, root: bool = False) -> None:
    """Append a cause for every rule that `value` breaks."""
    if value is None:
        if not node.nullable and node.types:
            found.append(_wrong_type(path, node, "null"))
        return
    actual = type_of(value)
    fitting = actual in node.types or (actual == "integer" and "number" in node.types)
    if node.types and not fitting:
        found.append(_wrong_type(path, node, actual))
        _check_enum(value, node, path, found)
    else:
        _check_enum(value, node, path, found)
        _check_value(value, node, path, found, root=root)
    if node.all_of or node.any_of or node.one_of or node.negated is not None:
        _check_branches(value, node, path, found)


def _check_value(value: Any, node: Node, path: str, found: list[Cause], *, root: bool) -> None:
    if isinstance(value, str):
        _check_text(value, node, path, found)
    elif isinstance(value, dict):
        _check_object(value, node, path, found, root=root)
    elif isinstance(value, list):
        _check_list(value, node, path, found)
    elif not isinstance(value, bool):
        _check_number(value, node, path, found)


def type_of(value: Any) -> str:
    """JSON's type, with the integers that Go's int64 holds told apart from other numbers."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case int():
            return "integer" if -_MAX_INT64 - 1 <= value <= _MAX_INT64 else "number"
        case _:
            return "integer" if value.is_integer() and abs(value) < _MAX_INT64 else "number"


def _wrong_type(path: str, node: Node, actual: str) -> Cause:
    wanted = ",".join(node.types)
    return causes.type_invalid(path, actual, f'{path} in body must be of type {wanted}: "{actual}"')


def _check_enum(value: Any, node: Node, path: str, found: list[Cause]) -> None:
    if node.enum and not any(same_document({"": value}, {"": item}) for item in node.enum):
        supported = [item if isinstance(item, str) else encode(item).decode() for item in node.enum]
        found.append(causes.not_supported(path, value, supported))


def _check_text(value: str, node: Node, path: str, found: list[Cause]) -> None:
    if node.min_length is not None and len(value) < node.min_length:
        detail = f"{path} in body should be at least {node.min_length} chars long"
        found.append(causes.invalid(path, value, detail))
    if node.max_length is not None and len(value) > node.max_length:
        found.append(causes.too_long(path, node.max_length))
    if node.pattern_re is not None and not node.pattern_re.search(value):
        found.append(causes.invalid(path, value, f"{path} in body should match '{node.pattern}'"))
    fits = FORMATS.get(node.format)
    if fits is not None and not fits(value):
        detail = f'{path} in body must be of type {node.format}: "{value}"'
        found.append(causes.type_invalid(path, value, detail))


def _check_number(value: float, node: Node, path: str, found: list[Cause]) -> None:
    low, high = node.minimum, node.maximum
    detail = ""
    if low is not None and (value < low or (node.exclusive_minimum and value == low)):
        relation = "greater than" if node.exclusive_minimum else "greater than or equal to"
        detail = f"{path} in body should be {relation} {causes.rendered(low)}"
    elif high is not None and (value > high or (node.exclusive_maximum and value == high)):
        relation = "less than" if node.exclusive_maximum else "less than or equal to"
        detail = f"{path} in body should be {relation} {causes.rendered(high)}"
    elif node.multiple_of and (value / node.multiple_of) % 1 != 0:
        detail = f"{path} in body should be a multiple of {causes.rendered(node.multiple_of)}"
    if detail:
        found.append(causes.invalid(path, value, detail))


def _check_object(
    value: Document, node: Node, path: str, found: list[Cause], *, root: bool
) -> None:
    prefix = f"{path}." if path else ""
    if node.embedded_resource:
        found += [
            causes.required(f"{prefix}{key}") for key in ("apiVersion", "kind") if key not in value
        ]
    if node.min_properties is not None and len(value) < node.min_properties:
        detail = f"{path} in body should have at least {node.min_properties} properties"
        found.append(causes.invalid(path, len(value), detail))
    if node.max_properties is not None and len(value) > node.max_properties:
        found.append(causes.too_many(path, len(value), node.max_properties))
    found += [causes.required(f"{prefix}{name}") for name in node.required if name not in value]
    properties, additional = node.properties, node.additional
    for name in sorted(value):
        if root and name in {"apiVersion", "kind", "metadata"}:
            continue
        child = properties.get(name, additional)
        if child is not None:
            validated(value[name], child, f"{prefix}{name}", found)


def _check_list(value: list[Any], node: Node, path: str, found: list[Cause]) -> None:
    if node.min_items is not None and len(value) < node.min_items:
        detail = f"{path} in body should have at least {node.min_items} items"
        found.append(causes.invalid(path, len(value), detail))
    if node.max_items is not None and len(value) > node.max_items:
        found.append(causes.too_many(path, len(value), node.max_items))
    if node.items is not None:
        for index, item in enumerate(value):
            validated(item, node.items, f"{path}[{index}]", found)
    if node.list_type in {"set", "map"}:
        _check_unique(value, node, path, found)


def _check_unique(value: list[Any], node: Node, path: str, found: list[Cause]) -> None:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        identity = item
        if node.list_type == "map":
            if not isinstance(item, dict):
                continue
            identity = {key: item[key] for key in node.list_keys if key in item}
        encoded = encode(identity)
        if encoded in seen:
            found.append(causes.duplicate(f"{path}[{index}]", identity))
        seen.add(encoded)


def _check_branches(value: Any, node: Node, path: str, found: list[Cause]) -> None:
    if node.all_of:
        broken = [cause for branch in node.all_of for cause in _tried(value, branch, path)]
        if broken:
            found += broken
            found.append(_branch(f'"{path}" must validate all the schemas (allOf)'))
    if node.any_of:
        tries = [_tried(value, branch, path) for branch in node.any_of]
        if all(tries):
            found.append(_branch(f'"{path}" must validate at least one schema (anyOf)'))
            found += tries[0]
    if node.one_of:
        tries = [_tried(value, branch, path) for branch in node.one_of]
        fitting = sum(1 for attempt in tries if not attempt)
        if fitting != 1:
            counted = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
            detail = f'"{path}" must validate one and only one schema (oneOf). {counted}'
            found.append(_branch(detail))
            if not fitting:
                found += tries[0]
    if node.negated is not None and not _tried(value, node.negated, path):
        found.append(_branch(f'"{path}" must not validate the schema (not)'))


def _tried(value: Any, branch: Node, path: str) -> list[Cause]:
    found: list[Cause] = []
    validated(value, branch, path, found)
    return found


def _branch(detail: str) -> Cause:
    return causes.invalid("<nil>", "", detail)
