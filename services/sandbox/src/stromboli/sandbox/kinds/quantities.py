"""Quantities inside objects: read exactly, stored in their canonical form, as kube does."""

from typing import Any, Final

from stromboli.api.errors import QuantityError
from stromboli.api.quantity import parse_quantity
from stromboli.sandbox import causes, statuses
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.names import label_key_problems

__all__ = ["canonicalise", "resource_causes"]

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})
_FRACTIONAL: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def canonicalise(amounts: Any, kind: str) -> None:
    """Rewrite a resource list in place; text that is no quantity is a 400."""
    if not amounts:
        return
    for name, amount in amounts.items():
        try:
            amounts[name] = str(parse_quantity(amount))
        except QuantityError as error:
            pattern = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            raise statuses.bad_request(
                f'{kind} in version "v1" cannot be handled as a {kind}: quantities must match the'
                f" regular expression {pattern}"
            ) from error


def resource_causes(resources: Document, field: str) -> list[Cause]:
    """Rules for one container's requests and limits."""
    found: list[Cause] = []
    limits: dict[str, str] = resources.get("limits") or {}
    requests: dict[str, str] = resources.get("requests") or {}
    for name, text in limits.items():
        found += _amount_causes(name, text, f"{field}.limits")
    for name, text in requests.items():
        found += _amount_causes(name, text, f"{field}.requests")
        if name not in limits:
            continue
        amount, limit = parse_quantity(text), parse_quantity(limits[name])
        if amount > limit:
            detail = f"must be less than or equal to {name} limit of {limit}"
            found.append(causes.invalid(f"{field}.requests", text, detail))
        elif _is_extended(name) and amount != limit:
            detail = f"must be equal to {name} limit of {limit}"
            found.append(causes.invalid(f"{field}.requests", text, detail))
    found += [
        causes.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        for name in requests
        if _is_extended(name) and name not in limits
    ]
    return found


def _amount_causes(name: str, text: str, field: str) -> list[Cause]:
    found: list[Cause] = []
    if name not in _STANDARD:
        place = f"{field}[{name}]"
        found += [causes.invalid(place, name, problem) for problem in label_key_problems(name)]
        if "/" not in name and not name.startswith("hugepages-"):
            for detail in (
                "must be a standard resource type or fully qualified",
                "must be a standard resource for containers",
            ):
                found.append(causes.invalid(place, name, detail))
    amount = parse_quantity(text)
    if amount.nano < 0:
        detail = "must be greater than or equal to 0"
        found.append(causes.invalid(f"{field}[{name}]", text, detail))
    if name not in _FRACTIONAL and amount.nano % 1_000_000_000:
        found.append(causes.invalid(f"{field}[{name}]", text, "must be an integer"))
    return found


def _is_extended(name: str) -> bool:
    """Extended resources cannot be over-committed: request and limit are one number."""
    return "/" in name and not name.startswith("kubernetes.io/") and "hugepages-" not in name
