"""Keep secrets out of everything that people read: logs, settings, error messages.

Two nets, because either alone has holes. A value that is known to be secret travels as a
`Secret`, which prints as stars wherever it ends up. A value that arrives in some
dictionary under a telling name (`password`, `ssh_key`) is starred by that name, and the
user part of an URL by its shape. Over-redaction is accepted; a leak is not.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

__all__ = ["STARS", "Secret", "is_telling_name", "redact", "redact_text"]

STARS: Final = "********"

_TELLING: Final = frozenset(
    {
        "authorization",
        "credential",
        "credentials",
        "jwt",
        "nkey",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "secrets",
        "seed",
        "ssh",
        "token",
    }
)
_TELLING_PAIRS: Final = frozenset(
    {("private", "key"), ("api", "key"), ("access", "key"), ("signing", "key"), ("id", "rsa")}
)
# Splits snake_case, kebab-case and camelCase alike.
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL_USER: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s]+@", re.IGNORECASE)
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_MAX_DEPTH: Final = 6


class Secret:
    """A string that prints as stars; ask for it by `reveal()`, as late as possible."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({STARS!r})"

    def __str__(self) -> str:
        return STARS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


@lru_cache(maxsize=4096)  # the names of fields are few and come again and again
def is_telling_name(name: str) -> bool:
    """Whether a value under this name is to be starred."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return not _TELLING.isdisjoint(words) or any(
        pair in _TELLING_PAIRS for pair in itertools.pairwise(words)
    )


def redact_text(text: str) -> str:
    """Star the user part of URLs and whole private keys inside a text."""
    if "://" in text and "@" in text:
        text = _URL_USER.sub(rf"\g<scheme>{STARS}@", text)
    if "PRIVATE KEY-----" in text:
        text = _PEM.sub(STARS, text)
    return text


def redact(value: Any, *, depth: int = _MAX_DEPTH) -> Any:
    """A copy of a value with secrets starred; what needs no change is returned as it is."""
    match value:
        case str():
            return redact_text(value)
        case None | bool() | int() | float() | bytes() | bytearray() | memoryview():
            return value
        case Secret():
            return STARS
        case BaseException():
            return redact_text(str(value) or type(value).__name__)
        case msgspec.Struct():
            # Its fields have names that may tell, as a dictionary's keys do.
            return _redact_inside(msgspec.structs.asdict(value), depth=depth)
        case Mapping() | Sequence() | AbstractSet():
            return _redact_inside(cast("Iterable[Any]", value), depth=depth)
        case _:
            return value


def _redact_inside(value: Iterable[Any], *, depth: int) -> Any:
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {key: _redact_item(key, inner, depth=depth - 1) for key, inner in items}
    return [redact(inner, depth=depth - 1) for inner in value]


def _redact_item(key: Any, value: Any, *, depth: int) -> Any:
    if isinstance(key, str) and is_telling_name(key) and not _is_harmless(value):
        return STARS
    return redact(value, depth=depth)


def _is_harmless(value: Any) -> bool:
    # A count of tokens or "token: false" gives nothing away and is worth reading.
    return value is None or isinstance(value, (bool, int, float))
