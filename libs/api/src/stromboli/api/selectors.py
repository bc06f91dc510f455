"""Which labels a selector picks: metav1.LabelSelector and the requirements it is made of.

One `Requirement` serves label selectors, node affinity and selectors written as text
(`stromboli.api.selector_text`), since they agree on what each operator means. A selector that
is absent (None in the object) picks nothing and an empty one picks everything: callers decide
that before they come here.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from msgspec import field

from stromboli.api.errors import SelectorError
from stromboli.api.fieldtypes import ATOMIC_LIST, Shape, allowed

__all__ = ["LabelSelector", "Operator", "Requirement"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(Shape):
    """One condition on one label."""

    key: Annotated[str, allowed(required=True)] = ""
    operator: Annotated[str, allowed(required=True)] = ""
    values: Annotated[tuple[str, ...], ATOMIC_LIST] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` satisfy this; a label that is absent is "not in" any values."""
        match self.operator:
            case Operator.IN:
                return self.key in labels and labels[self.key] in self.values
            case Operator.NOT_IN:
                return self.key not in labels or labels[self.key] not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case Operator.GT | Operator.LT:
                return self._compares(labels)
            case _:
                raise SelectorError(self.operator, f"one of the operators {', '.join(Operator)}")

    def _compares(self, labels: Mapping[str, str]) -> bool:
        actual = _integer(labels.get(self.key, ""))
        bound = _integer(self.values[0]) if len(self.values) == 1 else None
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator == Operator.GT else actual < bound


class LabelSelector(Shape):
    """All of `matchLabels` and all of `matchExpressions` must hold."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: Annotated[tuple[Requirement, ...], ATOMIC_LIST] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None
