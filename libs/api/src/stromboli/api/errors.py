"""What can be wrong with text and objects that come from outside.

    ApiError (ValueError)
    ├── QuantityError        text that Kubernetes would not read as a resource quantity
    ├── DurationError        text that Go would not read as a duration
    ├── TimestampError       text that is not RFC 3339
    ├── BadSchedule          text that is not a cron expression
    ├── UnknownTimeZone      a name that is not in the time zone database
    ├── SelectorError        a selector whose text, operator or values are not legal
    ├── ObjectUnreadable     bytes that cannot be read as an object of the kind they claim
    ├── UnknownKind          a token, type or (apiVersion, kind) that the registry does not hold
    ├── BadPath              an object that no API path can name
    └── ContentsWithheld     a Secret was to be written, but its contents were never read

They are ValueErrors because each means "this value is wrong": callers at an edge may catch
that alone. None of them carries the contents of an object, only where in it the fault is.
"""

from typing import Final

__all__ = [
    "ApiError",
    "BadPath",
    "BadSchedule",
    "ContentsWithheld",
    "DurationError",
    "ObjectUnreadable",
    "QuantityError",
    "SelectorError",
    "TimestampError",
    "UnknownKind",
    "UnknownTimeZone",
]

_SHOWN: Final = 64
"""How much of a bad text an error repeats: enough to find it, too little to flood a log."""


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


class ApiError(ValueError):
    """Something from outside is not what the Kubernetes API allows."""


class QuantityError(ApiError):
    def __init__(self, text: str, expected: str) -> None:
        self.text = text
        self.expected = expected
        super().__init__(f"bad quantity {_shown(text)}: expected {expected}")


class DurationError(ApiError):
    def __init__(self, text: str, expected: str) -> None:
        self.text = text
        self.expected = expected
        super().__init__(f"bad duration {_shown(text)}: expected {expected}")


class TimestampError(ApiError):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            f"bad timestamp {_shown(text)}: expected RFC 3339 such as '2024-05-28T09:18:50Z'"
        )


class BadSchedule(ApiError):
    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        super().__init__(f"schedule {_shown(text)} is not a valid cron expression: {problem}")


class UnknownTimeZone(ApiError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"unknown time zone {_shown(name)}: expected a name of the IANA time zone database, "
            "such as Europe/Rome, or none at all for UTC"
        )


class SelectorError(ApiError):
    def __init__(self, text: str, expected: str) -> None:
        self.text = text
        self.expected = expected
        super().__init__(f"bad selector {_shown(text)}: expected {expected}")


class ObjectUnreadable(ApiError):
    """`fault` says where and why in msgspec's words; it names types and paths, not values."""

    def __init__(self, what: str, fault: str) -> None:
        self.what = what
        self.fault = fault
        super().__init__(f"cannot read this as {what}: {fault}")


class UnknownKind(ApiError):
    def __init__(self, asked: str, known: str) -> None:
        self.asked = asked
        self.known = known
        super().__init__(f"unknown kind {asked!r}: the registry holds {known}")


class BadPath(ApiError):
    def __init__(self, kind: str, fault: str) -> None:
        self.kind = kind
        self.fault = fault
        super().__init__(f"no API path for this {kind}: {fault}")


class ContentsWithheld(ApiError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"Secret {name!r} was read without its contents and cannot be written back; "
            "build the manifest where the contents are made"
        )
