"""Kubernetes resource quantities, exact: "100m", "1.5Gi", "12e6".

A quantity is a whole number of nano-units (Kubernetes rounds anything finer up) and the
family of suffixes it was written in, which only decides how it is printed. Comparing and
hashing look at the number alone: "1Ki" equals "1024".

Text is read and printed as kube-apiserver 1.35 does, with three exceptions, all accidents
there: a decimal above 999E keeps its value when printed ("1000E" becomes "1" there), text
without any digit is refused ("Ki" is zero there, and "Pi" an error), and so is an exponent
above 1000 (a huge one hangs the server).
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final, Self

from stromboli.api.errors import QuantityError

__all__ = ["ZERO", "Family", "Quantity", "parse_quantity"]

_NANO_DIGITS: Final = 9
_NANO: Final = 10**_NANO_DIGITS
_NANO_PER_MILLI: Final = 10**6
_MAX_INT64: Final = 2**63 - 1
_MAX_TEXT: Final = 1000
_MAX_EXPONENT: Final = 1000

_EXPECTED: Final = (
    "a number with an optional suffix: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent "
    "such as e3 (examples: 500m, 1.5Gi, 12e6)"
)
_TEXT: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]+))?"
)

_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_EXPONENTS: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY_EXPONENTS)


class Family(Enum):
    """Which suffixes a quantity is printed with; the names are Kubernetes' own."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Make one with `parse_quantity`, `of_units` or `of_milli`."""

    nano: int
    family: Family = field(default=Family.DECIMAL_SI, compare=False)

    @classmethod
    def of_units(cls, units: int, family: Family = Family.DECIMAL_SI) -> Self:
        return cls(units * _NANO, family)

    @classmethod
    def of_milli(cls, milli: int, family: Family = Family.DECIMAL_SI) -> Self:
        return cls(milli * _NANO_PER_MILLI, family)

    def value(self) -> int:
        """Whole units, rounded away from zero and kept within int64."""
        return _int64(_away_from_zero(self.nano, _NANO))

    def milli_value(self) -> int:
        """Thousandths, rounded away from zero and kept within int64."""
        return _int64(_away_from_zero(self.nano, _NANO_PER_MILLI))

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self._family_with(other))

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self._family_with(other))

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.family)

    def __mul__(self, times: int) -> "Quantity":
        return Quantity(self.nano * times, self.family)

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        """The canonical form: no fraction, and the largest suffix that allows it."""
        if self.nano == 0:
            return "0"
        sign = "-" if self.nano < 0 else ""
        units, below_one = divmod(abs(self.nano), _NANO)
        if self.family is Family.BINARY_SI and units >= 1024 and below_one == 0:
            return sign + _binary_text(units)
        return sign + _decimal_text(abs(self.nano), self.family)

    def _family_with(self, other: "Quantity") -> Family:
        return self.family if self.nano else other.family


ZERO: Final = Quantity(0)


def parse_quantity(text: str | float) -> Quantity:
    """The quantity that `text` stands for; JSON numbers are read as they would be printed."""
    return _parse(text if isinstance(text, str) else repr(text))


@lru_cache(maxsize=1 << 16)
def _parse(text: str) -> Quantity:
    # A cluster repeats few distinct texts over very many pods, hence the cache.
    stripped = text.strip()  # as Kubernetes does when it reads a quantity from JSON
    match = _TEXT.fullmatch(stripped) if stripped and len(stripped) <= _MAX_TEXT else None
    if match is None or not (match[2] or match[3]):
        raise QuantityError(text, _EXPECTED)
    sign, whole, fraction, binary, decimal, exponent = match.groups(default="")
    digits = int(whole + fraction)
    if binary:
        family = Family.BINARY_SI
        magnitude = _scaled(digits << _BINARY_EXPONENTS[binary], _NANO_DIGITS - len(fraction))
        magnitude = min(magnitude, _MAX_INT64 * _NANO)
        if 0 < magnitude < _NANO:
            family = Family.DECIMAL_SI
    elif exponent:
        family = Family.DECIMAL_EXPONENT
        power = int(exponent)
        if power > _MAX_EXPONENT:
            raise QuantityError(text, f"an exponent of at most {_MAX_EXPONENT}")
        magnitude = _scaled(digits, power + _NANO_DIGITS - len(fraction))
    else:
        family = Family.DECIMAL_SI
        magnitude = _scaled(digits, _DECIMAL_EXPONENTS[decimal] + _NANO_DIGITS - len(fraction))
    return Quantity(-magnitude if sign == "-" else magnitude, family)


def _scaled(digits: int, power: int) -> int:
    """`digits` times 10^`power`, rounded up: who asks for a little gets at least a little."""
    if power >= 0:
        return digits * 10**power
    if power < -2 * _MAX_TEXT:  # more than any digits we accept can make up for
        return 1 if digits else 0
    return -(-digits // 10**-power)


def _away_from_zero(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


def _int64(number: int) -> int:
    return max(-_MAX_INT64 - 1, min(_MAX_INT64, number))


def _binary_text(units: int) -> str:
    step = 0
    while units % 1024 == 0 and step < len(_BINARY_SUFFIXES) - 1:
        units //= 1024
        step += 1
    return f"{units}{_BINARY_SUFFIXES[step]}"


def _decimal_text(nano: int, family: Family) -> str:
    digits = str(nano)
    significant = digits.rstrip("0")
    exponent = len(digits) - len(significant) - _NANO_DIGITS
    shown = exponent - exponent % 3
    if family is Family.DECIMAL_EXPONENT:
        suffix = f"e{shown}" if shown else ""
    else:
        shown = min(shown, _DECIMAL_EXPONENTS["E"])
        suffix = _DECIMAL_SUFFIXES[shown]
    return significant + "0" * (exponent - shown) + suffix
