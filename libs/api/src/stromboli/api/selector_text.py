"""Selectors as people and URLs write them: `app=web,tier in (a,b),!old` and `spec.nodeName!=`.

Label selectors follow the grammar of Kubernetes' labels.Parse, field selectors that of
fields.ParseSelector. Both print in a form that reads back to an equal selector, so that a
selector can travel in a query string.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from stromboli.api.errors import SelectorError
from stromboli.api.fieldtypes import Shape
from stromboli.api.selectors import LabelSelector, Operator, Requirement

__all__ = [
    "FieldRequirement",
    "FieldSelector",
    "LabelQuery",
    "parse_field_selector",
    "parse_label_selector",
]

_EXPECTED_LABELS: Final = "comma-separated terms such as a=b, a!=b, a in (x,y), a notin (x), a, !a"
_EXPECTED_FIELDS: Final = "comma-separated terms such as metadata.name=x or spec.nodeName!=y"
_MAX_NAME: Final = 63
_MAX_PREFIX: Final = 253

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)\s*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class LabelQuery(Shape):
    """A parsed label selector; no requirements means everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(_label_term(requirement) for requirement in self.requirements)

    @classmethod
    def of(cls, selector: LabelSelector) -> "LabelQuery":
        """The same selection as an object's LabelSelector makes, ready to be printed."""
        equalities = tuple(
            Requirement(key=key, operator=Operator.IN, values=(value,))
            for key, value in selector.match_labels.items()
        )
        return cls(requirements=_in_order(equalities + selector.match_expressions))


class FieldRequirement(Shape):
    path: str
    value: str
    negated: bool = False


class FieldSelector(Shape):
    """A parsed field selector; a field that the mapping lacks counts as empty."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(
            (fields.get(requirement.path, "") == requirement.value) is not requirement.negated
            for requirement in self.requirements
        )

    def __str__(self) -> str:
        return ",".join(
            f"{part.path}{'!=' if part.negated else '='}{_escaped(part.value)}"
            for part in self.requirements
        )


def parse_label_selector(text: str) -> LabelQuery:
    """The selector in `text`; empty text selects everything."""
    return LabelQuery(requirements=_in_order(tuple(_LabelParser(text).terms())))


def parse_field_selector(text: str) -> FieldSelector:
    """The selector in `text`; empty text and empty terms select everything."""
    return FieldSelector(
        requirements=tuple(_field_term(text, term) for term in _split_fields(text) if term)
    )


class _LabelParser:
    """Recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._next = 0

    def terms(self) -> Iterator[Requirement]:
        if not self._tokens:
            return
        yield self._term()
        while self._peek() == ",":
            self._take()
            yield self._term()
        if self._peek():
            raise self._wrong()

    def _term(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(key=self._key(), operator=Operator.DOES_NOT_EXIST)
        key = self._key()
        match self._peek():
            case "" | ",":
                return Requirement(key=key, operator=Operator.EXISTS)
            case "=" | "==":
                self._take()
                return Requirement(key=key, operator=Operator.IN, values=(self._value(),))
            case "!=":
                self._take()
                return Requirement(key=key, operator=Operator.NOT_IN, values=(self._value(),))
            case "in" | "notin" as word:
                self._take()
                operator = Operator.IN if word == "in" else Operator.NOT_IN
                return Requirement(key=key, operator=operator, values=self._values())
            case ">" | "<" as sign:
                self._take()
                operator = Operator.GT if sign == ">" else Operator.LT
                return Requirement(key=key, operator=operator, values=(self._bound(),))
            case _:
                raise self._wrong()

    def _key(self) -> str:
        key = self._take()
        prefix, slash, name = key.rpartition("/")
        if not _is_name(name) or (slash and not _is_prefix(prefix)):
            raise self._wrong()
        return key

    def _value(self) -> str:
        if self._peek() in ("", ",", ")"):
            return ""
        value = self._take()
        if not _is_name(value):
            raise self._wrong()
        return value

    def _values(self) -> tuple[str, ...]:
        if self._take() != "(" or self._peek() == ")":
            raise self._wrong()
        values = {self._value()}
        while self._peek() == ",":
            self._take()
            values.add(self._value())
        if self._take() != ")":
            raise self._wrong()
        return tuple(sorted(values))

    def _bound(self) -> str:
        bound = self._take()
        if not (bound.isascii() and bound.isdigit()):
            raise self._wrong()
        return bound

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _wrong(self) -> SelectorError:
        return SelectorError(self._text, _EXPECTED_LABELS)


def _is_name(text: str) -> bool:
    return len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None


def _is_prefix(text: str) -> bool:
    return len(text) <= _MAX_PREFIX and _PREFIX.fullmatch(text) is not None


def _in_order(requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))


def _label_term(requirement: Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"!{key}"
        case Operator.GT | Operator.LT as operator:
            return f"{key}{'>' if operator == Operator.GT else '<'}{values[0]}"
        case Operator.IN:
            return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"
        case Operator.NOT_IN:
            return (
                f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({','.join(values)})"
            )
        case other:
            raise SelectorError(other, f"one of the operators {', '.join(Operator)}")


def _split_fields(text: str) -> list[str]:
    """Terms between commas that no backslash protects; escapes are kept for `_field_term`."""
    return re.findall(r"(?:[^\\,]|\\.|\\$)+", text, flags=re.DOTALL)


def _field_term(text: str, term: str) -> FieldRequirement:
    parts = re.fullmatch(r"([^=!\\]+)(==|!=|=)(.*)", term, flags=re.DOTALL)
    if parts is None:
        raise SelectorError(text, _EXPECTED_FIELDS)
    path, sign, value = parts.groups()
    return FieldRequirement(path=path, value=_unescaped(text, value), negated=sign == "!=")


def _unescaped(text: str, value: str) -> str:
    if re.fullmatch(r"(?:[^\\,=]|\\[\\,=])*", value, flags=re.DOTALL) is None:
        raise SelectorError(text, r"the escapes \\, \, and \= only, and no bare = in a value")
    return re.sub(r"\\(.)", r"\1", value)


def _escaped(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)
