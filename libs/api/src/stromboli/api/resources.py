"""Amounts of resources as the integers that scheduling counts in.

Every resource has one base unit, so that amounts add up in int64 arrays without rounding twice:
thousandths for cpu and for devices (0.5 of a GPU is 500), whole units for what is already
counted in bytes or pieces. Bytes are never counted in thousandths: ten thousand nodes with a
terabyte of scratch space each would overflow int64.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from stromboli.api.fieldtypes import QuantityText
from stromboli.api.quantity import ZERO, Quantity, parse_quantity

__all__ = ["add_resources", "counts_in_thousandths", "from_base_units", "to_base_units"]

_WHOLE: Final = frozenset({"memory", "ephemeral-storage", "storage", "pods"})
_WHOLE_PREFIXES: Final = ("hugepages-", "attachable-volumes-", "count/")
_QUOTA_PREFIXES: Final = ("requests.", "limits.")


def counts_in_thousandths(resource: str) -> bool:
    """Whether the base unit of `resource` is a thousandth; `requests.cpu` counts as cpu does."""
    for prefix in _QUOTA_PREFIXES:
        resource = resource.removeprefix(prefix)
    return resource not in _WHOLE and not resource.startswith(_WHOLE_PREFIXES)


def to_base_units(resource: str, amount: QuantityText | Quantity) -> int:
    """`amount` of `resource` in base units, rounded up and kept within int64."""
    quantity = amount if isinstance(amount, Quantity) else parse_quantity(amount)
    return quantity.milli_value() if counts_in_thousandths(resource) else quantity.value()


def from_base_units(resource: str, units: int) -> Quantity:
    make = Quantity.of_milli if counts_in_thousandths(resource) else Quantity.of_units
    return make(units)


def add_resources(lists: Iterable[Mapping[str, QuantityText]]) -> dict[str, str]:
    """The sum of resource lists, in canonical text, ordered by resource name."""
    total: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            total[name] = total.get(name, ZERO) + parse_quantity(amount)
    return {name: str(total[name]) for name in sorted(total)}
