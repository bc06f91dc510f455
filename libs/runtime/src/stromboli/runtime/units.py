"""Durations and sizes as people write them in settings: `4s`, `1m30s`, `512Ki`.

A duration is a float of seconds and a size an int of bytes, so the code that uses them
needs no conversion; what they add is reading and writing the unit. A bare number is
refused for a duration: `timeout: 5` has meant milliseconds to somebody before.
"""

import re
from decimal import Decimal
from typing import Final, Self

__all__ = ["Duration", "Size"]

_SECONDS: Final = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "us": Decimal("0.000001"),
}
_BYTES: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|us|m|s)")
_WHOLE_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:d|h|ms|us|m|s))+")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGT]i|[kMGT]|)B?")


class Duration(float):
    """Seconds, written with their unit."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `4s`, `300ms`, `1m30s`, `2h`, `7d`, or `0`."""
        stripped = text.strip()
        if stripped == "0":
            return cls(0)
        if not _WHOLE_DURATION.fullmatch(stripped):
            raise ValueError(
                f"expected a duration with its unit, such as 4s, 300ms or 1m30s, got {text!r}"
            )
        parts = _PART.findall(stripped)
        return cls(sum(Decimal(number) * _SECONDS[unit] for number, unit in parts))

    def __str__(self) -> str:
        left = Decimal(repr(float(self)))
        if left == 0:
            return "0s"
        sign = "-" if left < 0 else ""
        left = abs(left)
        text = ""
        for unit in ("d", "h", "m", "s", "ms"):
            count, left = divmod(left, _SECONDS[unit])
            if count:
                text += f"{count:f}{unit}"
        if left:
            text += f"{(left / _SECONDS['us']).normalize():f}us"
        return sign + text

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


class Size(int):
    """Bytes, written with their unit; `Ki` is 1024 and `k` is 1000, as in Kubernetes."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1Mi`, `512Ki`, `10M`, `64KiB`, or a plain number of bytes."""
        found = _SIZE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"expected a size such as 1Mi, 512Ki or 65536, got {text!r}")
        amount = Decimal(found[1]) * _BYTES[found[2]]
        if amount != amount.to_integral_value():
            raise ValueError(f"expected a whole number of bytes, got {text!r} = {amount} bytes")
        return cls(amount)

    def __str__(self) -> str:
        for unit in ("Ti", "Gi", "Mi", "Ki"):
            if self and self % _BYTES[unit] == 0:
                return f"{self // _BYTES[unit]}{unit}"
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"
