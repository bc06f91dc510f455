"""String formats that custom resource schemas may ask for.

Formats kube does not check (int32, password, made-up ones) are not in the table and pass.
"""

import base64
import binascii
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

__all__ = ["FORMATS"]

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_GO_DURATION: Final = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_WORD_DURATION: Final = re.compile(
    r"\s*\d+\s*(nanoseconds?|microseconds?|milliseconds?|millis?|seconds?|secs?|minutes?|mins?"
    r"|hours?|hrs?|days?|weeks?|[dwms])\s*",
    re.ASCII,
)


def _is_date_time(text: str) -> bool:
    if not _RFC3339.fullmatch(text):
        return False
    try:
        # Python knows microseconds, RFC 3339 has no limit.
        datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text).upper().replace(" ", "T"))
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_duration(text: str) -> bool:
    return bool(_GO_DURATION.fullmatch(text) or _WORD_DURATION.fullmatch(text))


def _is_byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "date": _is_date,
    "duration": _is_duration,
    "byte": _is_byte,
    "uuid": _is_uuid,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
}
