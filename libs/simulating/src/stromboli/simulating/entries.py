"""One entry of a trace, read field by field; what is wrong is noted and reading goes on.

A row of a CSV file is an entry whose values are all text, so numbers are accepted as text too.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stromboli.api.durations import SECOND, parse_duration
from stromboli.api.errors import DurationError, QuantityError, TimestampError
from stromboli.api.quantity import parse_quantity
from stromboli.api.timestamps import parse_time
from stromboli.simulating.located import Located
from stromboli.simulating.trace import Problem

__all__ = ["FOREVER", "Entry", "Moment", "Problems"]

FOREVER: Final = "forever"
_LONGEST_S: Final = 100 * 365.25 * 86400
_MOST: Final = 1_000_000
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_RFC_3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")
_DURATION: Final = "a number of seconds, or a duration such as 90s or 1h30m"


@dataclass(slots=True)
class Problems:
    """What was found wrong so far."""

    found: list[Problem] = field(default_factory=list[Problem])

    def note(self, file: str, line: int, name: str, sentence: str) -> None:
        self.found.append(Problem(file, line, name, sentence))


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since the beginning of the trace, or of 1970 if it was a timestamp."""

    seconds: float
    is_absolute: bool = False


class Entry:
    """A mapping with known fields."""

    def __init__(
        self, file: str, where: Located, path: str, known: tuple[str, ...], problems: Problems
    ) -> None:
        self.file = file
        self.line = where.line
        self.path = path
        self._known = known
        self._problems = problems
        self._fields: Mapping[str, Located] = {}
        fields = where.mapping
        if fields is None:
            self.problem("", f"expected a mapping with the fields {', '.join(known)}")
            return
        self._fields = {name: value for name, value in fields.items() if value.value is not None}
        for name, value in fields.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                sentence = f"is not known; expected one of {', '.join(known)}{hint}"
                problems.note(file, value.line, self._full(name), sentence)

    def problem(self, name: str, sentence: str) -> None:
        line = self._fields[name].line if name in self._fields else self.line
        self._problems.note(self.file, line, self._full(name), sentence)

    def _full(self, name: str) -> str:
        return ".".join(part for part in (self.path, name) if part)

    def has(self, name: str) -> bool:
        return name in self._fields

    def raw(self, name: str) -> Located | None:
        return self._fields.get(name)

    def text(self, name: str, default: str = "") -> str:
        value = self._value(name)
        if value is None:
            return default
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
        self._expected(name, "a text")
        return default

    def name(self, name: str, default: str = "") -> str:
        """A text that can be part of a Kubernetes name."""
        text = self.text(name, default)
        if text and (len(text) > 63 or _LABEL.fullmatch(text) is None):
            self._expected(name, "lower case letters, digits and dashes, at most 63")
            return default
        return text

    def whole(self, name: str, default: int, *, least: int = 0, most: int = _MOST) -> int:
        value = self._value(name)
        if value is None:
            return default
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,12}", value.strip()):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self._expected(name, f"a whole number from {least} to {most}")
        return default

    def seconds(self, name: str) -> float | None:
        """A duration; None if it is not there, infinity for `forever`."""
        value = self._value(name)
        if value is None:
            return None
        if value == FOREVER:
            return math.inf
        found = _seconds(value)
        if found is None or not 0 <= found <= _LONGEST_S:
            self._expected(name, _DURATION)
            return None
        return found

    def moment(self, name: str) -> Moment | None:
        """When something happens; None if it is not there."""
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, str) and _RFC_3339.match(value):
            try:
                return Moment(parse_time(value.replace(" ", "T", 1)).timestamp(), is_absolute=True)
            except TimestampError as fault:
                self.problem(name, str(fault))
                return None
        found = _seconds(value)
        if found is None or not 0 <= found <= _LONGEST_S:
            self._expected(name, f"{_DURATION}, or a moment such as 2030-01-31T08:00:00Z")
            return None
        return Moment(found)

    def amounts(self, name: str) -> dict[str, str]:
        """Resources and their quantities, in Kubernetes' spelling; `gpu` is NVIDIA's."""
        where = self._fields.get(name)
        if where is None:
            return {}
        members = where.mapping
        if members is None:
            self._expected(name, "resources such as {cpu: 2, memory: 4Gi}")
            return {}
        found: dict[str, str] = {}
        for resource, amount in members.items():
            if amount.value is None:
                continue
            text = str(amount.value)
            try:
                negative = parse_quantity(text).nano < 0
            except QuantityError as fault:
                self._problems.note(
                    self.file, amount.line, self._full(f"{name}.{resource}"), str(fault)
                )
                continue
            if negative:
                sentence = f"is {text!r}, expected zero or more"
                self._problems.note(
                    self.file, amount.line, self._full(f"{name}.{resource}"), sentence
                )
                continue
            found["nvidia.com/gpu" if resource == "gpu" else resource] = text
        return found

    def entries(self, name: str, known: tuple[str, ...]) -> Iterator["Entry"]:
        """The entries of a list below this one."""
        where = self._fields.get(name)
        if where is None:
            return
        items = where.sequence
        if items is None:
            self._expected(name, "a list")
            return
        for number, item in enumerate(items):
            path = self._full(f"{name}[{number}]")
            yield Entry(self.file, item, path, known, self._problems)

    def _value(self, name: str) -> object:
        where = self._fields.get(name)
        return where.value if where is not None else None

    def _expected(self, name: str, what: str) -> None:
        where = self._fields[name]
        is_plain = where.mapping is None and where.sequence is None
        shown = repr(where.value)[:64] if is_plain else "a list or a mapping"
        self.problem(name, f"is {shown}, expected {what}")


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return parse_duration(value.strip()) / SECOND
    except DurationError:
        return None
