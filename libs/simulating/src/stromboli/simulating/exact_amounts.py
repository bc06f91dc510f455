"""Amounts as programs read them: exact, whatever they were written as.

Tables may round for people. What is parsed again must be what was meant, so an amount is told
as a canonical quantity of Kubernetes, and all amounts of a document in the same way. Bytes may
be whole in powers of two, of ten, or in neither: the shortest exact text is taken.
"""

from collections.abc import Mapping

from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.quantity import Family, Quantity, parse_quantity
from stromboli.api.resources import from_base_units
from stromboli.scheduling.resources import Amounts, counts_bytes

__all__ = ["exact_text", "exact_texts", "rewritten"]


def exact_text(resource: str, units: int) -> str:
    """Of so many base units."""
    return _text(resource, from_base_units(resource, units))


def exact_texts(amounts: Amounts) -> dict[str, str]:
    return {resource: exact_text(resource, units) for resource, units in amounts}


def rewritten(resources: Mapping[str, QuantityText]) -> dict[str, str]:
    """What somebody wrote, as `exact_text` would tell it; what is no quantity stays."""
    found: dict[str, str] = {}
    for resource, written in sorted(resources.items()):
        try:
            found[resource] = _text(resource, parse_quantity(written))
        except QuantityError:
            found[resource] = str(written)
    return found


def _text(resource: str, quantity: Quantity) -> str:
    decimal = str(Quantity(quantity.nano))
    if not counts_bytes(resource):
        return decimal
    binary = str(Quantity(quantity.nano, Family.BINARY_SI))
    return binary if len(binary) <= len(decimal) else decimal
