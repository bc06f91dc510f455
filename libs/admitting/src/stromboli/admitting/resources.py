"""Amounts of resources: which are allowed at all, and how Volcano prints them."""

from collections.abc import Iterable, Mapping
from typing import Final

from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.quantity import Quantity, parse_quantity

__all__ = [
    "amount_fault",
    "amounts_of",
    "is_extended",
    "is_huge_page",
    "is_native",
    "printed",
    "shown",
    "total_of",
]

_PIECES: Final = frozenset(
    {
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"


def is_native(resource: str) -> bool:
    """Whether Kubernetes itself defines the resource."""
    return "/" not in resource or _NATIVE in resource


def is_huge_page(resource: str) -> bool:
    return resource.startswith(_HUGE_PAGES)


def is_extended(resource: str) -> bool:
    return not is_native(resource) and not resource.startswith("requests.")


def amount_fault(resource: str, amount: QuantityText) -> str:
    """What is wrong with this much of a resource; empty when nothing is."""
    try:
        quantity = parse_quantity(amount)
    except QuantityError as fault:
        return str(fault)
    if quantity.nano < 0:
        return "must be greater than or equal to 0"
    if (resource in _PIECES or is_extended(resource)) and quantity.nano % 10**9:
        return "must be an integer"
    return ""


def amounts_of(resources: Mapping[str, QuantityText]) -> dict[str, Quantity]:
    """The amounts that can be read."""
    found: dict[str, Quantity] = {}
    for resource, amount in resources.items():
        try:
            found[resource] = parse_quantity(amount)
        except QuantityError:
            continue
    return found


def total_of(lists: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for amounts in lists:
        for resource, amount in amounts.items():
            total[resource] = total[resource] + amount if resource in total else amount
    return total


def shown(resource: str, amount: Quantity) -> str:
    """One amount as Volcano prints it in a comparison."""
    if resource in ("cpu", "memory"):
        return str(amount)
    return f"{amount.milli_value():.2f}"


def printed(amounts: Mapping[str, Quantity]) -> str:
    """All amounts as Volcano prints a resource: cpu and memory first, cpu in thousandths."""
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    parts = [
        f"cpu {cpu.milli_value() if cpu else 0:.2f}",
        f"memory {memory.value() if memory else 0:.2f}",
    ]
    parts += [
        f"{name} {amounts[name].milli_value():.2f}"
        for name in sorted(amounts.keys() - {"cpu", "memory"})
    ]
    return ", ".join(parts)
