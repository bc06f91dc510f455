"""A rule: one small function, with the message it refuses in beside it.

A rule's function yields what the message is to be filled with, once per fault; the message is
Volcano's, written in Go's verbs as there (`%s`). The tables of rules, one per path and
operation, are the whole of admission: the reference page and the CEL policies are printed
from them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from stromboli.admitting.patching import Patch
from stromboli.admitting.questions import ALLOWED, Surroundings, Verdict, cut

__all__ = [
    "MAX_FAULTS",
    "OURS",
    "VOLCANO",
    "Cel",
    "Default",
    "Fault",
    "Faults",
    "Rule",
    "default",
    "faults_of",
    "refused",
    "rule",
    "verdict_of",
    "warned",
]

C = TypeVar("C")

Faults: TypeAlias = Iterator[tuple[object, ...]]
"""One tuple per fault: what the message's verbs stand for."""

VOLCANO: Final = "Volcano"
OURS: Final = "Stromboli's own"

MAX_FAULTS: Final = 50
"""An object with more is told of the first ones."""

_REFUSED: Final = 400  # what an API server makes of Volcano's refusals, which carry no code
_NOT_YET: Final = 503
_NOT_SYNCED: Final = (
    "admission has not yet read the queues of this cluster and cannot judge this request; "
    "try again in a few seconds"
)


@dataclass(frozen=True, slots=True)
class Cel:
    """The rule as ValidatingAdmissionPolicy says it: true when the object is in order."""

    expression: str
    message: str
    """Without values: a policy's message can't quote what it found."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[C]):
    """What must hold, and what is said when it does not."""

    name: str
    says: str
    about: str
    check: Callable[[C], Iterable[tuple[object, ...]]]
    origin: str = VOLCANO
    needs_cluster: bool = False
    is_final: bool = False
    """Nothing else is looked at once this one has refused."""
    code: int = _REFUSED
    cel: Cel | None = None


@dataclass(frozen=True, slots=True)
class Default(Generic[C]):
    """Something that is filled in when it was left out."""

    name: str
    about: str
    fill: Callable[[C, Patch], None]
    origin: str = VOLCANO


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that was broken, in the words for it."""

    rule: Rule[Any]
    text: str


def rule(
    name: str,
    *,
    says: str,
    about: str,
    origin: str = VOLCANO,
    needs_cluster: bool = False,
    is_final: bool = False,
    code: int = _REFUSED,
    cel: Cel | None = None,
) -> Callable[[Callable[[C], Iterable[tuple[object, ...]]]], Rule[C]]:
    """Make a rule of the function below."""

    def made(check: Callable[[C], Iterable[tuple[object, ...]]]) -> Rule[C]:
        return Rule(
            name, says, about, check, origin=origin, needs_cluster=needs_cluster,
            is_final=is_final, code=code, cel=cel,
        )  # fmt: skip

    return made


def default(
    name: str, *, about: str, origin: str = VOLCANO
) -> Callable[[Callable[[C, Patch], None]], Default[C]]:
    """Make a default of the function below."""

    def made(fill: Callable[[C, Patch], None]) -> Default[C]:
        return Default(name, about, fill, origin=origin)

    return made


def faults_of(
    rules: Sequence[Rule[C]], case: C, surroundings: Surroundings
) -> tuple[list[Fault], bool]:
    """What is wrong, in the order of the table, and whether a rule could not be asked yet."""
    found: list[Fault] = []
    skipped = False
    for each in rules:
        if each.needs_cluster and not surroundings.is_synced:
            skipped = True
            continue
        for values in each.check(case):
            found.append(Fault(each, each.says % values if values else each.says))
            if each.is_final or len(found) >= MAX_FAULTS:
                return found, False
    return found, skipped


def verdict_of(faults: Sequence[Fault], *, message: str, skipped: bool = False) -> Verdict:
    """Allowed without faults, unless a rule had to be skipped: then nobody knows."""
    if faults:
        return refused(faults[0].rule.name, message, code=faults[0].rule.code)
    return refused("not-synced", _NOT_SYNCED, code=_NOT_YET) if skipped else ALLOWED


def warned(verdict: Verdict, warnings: Sequence[str]) -> Verdict:
    """The verdict with what its author should know all the same; a refusal says enough."""
    if not warnings or not verdict.allowed:
        return verdict
    return replace(verdict, warnings=(*verdict.warnings, *map(cut, warnings)))


def refused(rule_name: str, message: str, *, code: int = _REFUSED) -> Verdict:
    return Verdict(allowed=False, message=cut(message), code=code, rule=rule_name)
