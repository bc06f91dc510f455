"""Faults of fields, worded as Kubernetes words them."""

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["duplicate", "forbidden", "invalid", "not_found", "required", "unsupported"]


_SHOWN: Final = 256
"""How much of a value is repeated: a name of a megabyte is recognised by its beginning."""


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return f'"{value if len(value) <= _SHOWN else value[:_SHOWN] + "…"}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def invalid(path: str, value: object, detail: str) -> str:
    return f"{path}: Invalid value: {_quoted(value)}: {detail}"


def all_invalid(path: str, value: object, details: Iterable[str]) -> list[str]:
    return [invalid(path, value, detail) for detail in details]


def duplicate(path: str, value: object) -> str:
    return f"{path}: Duplicate value: {_quoted(value)}"


def not_found(path: str, value: object) -> str:
    return f"{path}: Not found: {_quoted(value)}"


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def unsupported(path: str, value: object, known: Sequence[str]) -> str:
    listed = ", ".join(f'"{each}"' for each in known)
    return f"{path}: Unsupported value: {_quoted(value)}: supported values: {listed}"
