"""ResourceQuotas as the scheduler reads them: what a namespace may still be given.

Amounts are in base units under the quota's own names. What Kubernetes calls `requests.cpu` and
`cpu` in a quota is the same thing, so what asks for one asks for the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from stromboli.api.core import ResourceQuota
from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.resources import to_base_units
from stromboli.scheduling.resources import amount_text

__all__ = [
    "NAMESPACE_WEIGHT",
    "Quota",
    "asked_of_quotas",
    "quotas_by_namespace",
    "shown",
    "used_by_pods",
    "weights",
]

NAMESPACE_WEIGHT: Final = "volcano.sh/namespace.weight"
"""Among the hard limits of a quota: the weight of its namespace among the others."""

_REQUESTS: Final = "requests."
_SAME: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Quota:
    """One ResourceQuota."""

    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]


def quotas_by_namespace(
    objects: Mapping[tuple[str, str], Any],
) -> dict[str, list[Quota]]:
    """Of every namespace that has any, by name."""
    found: dict[str, list[Quota]] = {}
    for (namespace, name), item in sorted(objects.items()):
        if isinstance(item, ResourceQuota):
            hard, used = _units_of(item.spec.hard), _units_of(item.status.used)
            found.setdefault(namespace, []).append(Quota(name, hard, used))
    return found


def weights(objects: Mapping[tuple[str, str], Any]) -> dict[str, int]:
    """Of every namespace that has one; the largest that any of its quotas gives."""
    found: dict[str, int] = {}
    for (namespace, _), item in objects.items():
        if isinstance(item, ResourceQuota) and NAMESPACE_WEIGHT in item.spec.hard:
            weight = _units("count/weight", item.spec.hard[NAMESPACE_WEIGHT])
            if weight is not None and weight >= 1:
                found[namespace] = max(weight, found.get(namespace, 0))
    return found


def asked_of_quotas(resources: Mapping[str, QuantityText]) -> dict[str, int]:
    """In base units, under every name by which a quota may limit it."""
    found = _units_of(resources)
    for name, units in list(found.items()):
        bare = name.removeprefix(_REQUESTS)
        if bare in _SAME:
            found.setdefault(bare if bare != name else _REQUESTS + name, units)
    return found


def used_by_pods(request: Mapping[str, int]) -> dict[str, int]:
    """What pods with these requests take of a quota."""
    found = dict(request)
    for name, units in request.items():
        if name in _SAME:
            found[_REQUESTS + name] = units
    return found


def shown(amounts: Mapping[str, int]) -> str:
    """As Kubernetes lists them: `cpu=2,memory=4Gi`."""
    return ",".join(f"{name}={_text(name, amounts[name])}" for name in sorted(amounts))


def _text(name: str, units: int) -> str:
    return amount_text(name.removeprefix(_REQUESTS).removeprefix("limits."), units)


def _units_of(resources: Mapping[str, QuantityText]) -> dict[str, int]:
    """What is no quantity says nothing; the API server refuses it anyway."""
    read = ((name, _units(name, quantity)) for name, quantity in resources.items())
    return {name: units for name, units in read if units is not None}


@lru_cache(maxsize=1 << 12)
def _units(name: str, quantity: QuantityText) -> int | None:
    try:
        return to_base_units(name, quantity)
    except QuantityError:
        return None
