"""HyperNodes: which nodes, or HyperNodes, a part of the network is made of."""

import re
import warnings
from dataclasses import dataclass
from typing import Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.questions import Review, Surroundings, Verdict
from stromboli.admitting.reading import shape_of
from stromboli.admitting.rules import Cel, Faults, Rule, faults_of, rule, verdict_of
from stromboli.api.fieldtypes import Shape

__all__ = ["RULES", "HyperNodeCase", "queues_named", "validate"]

_MAX_PATTERN: Final = 4096
"""Compiling takes time that grows with the pattern; no list of node names needs as much."""


class _RegexMatch(Shape):
    pattern: str = ""


class _Selector(Shape):
    regex_match: _RegexMatch | None = None


class _Member(Shape):
    type: str = ""
    selector: _Selector = _Selector()


class _HyperNodeSpec(Shape):
    members: tuple[_Member, ...] = ()


class _HyperNode(Shape):
    spec: _HyperNodeSpec = _HyperNodeSpec()


@dataclass(frozen=True, slots=True)
class HyperNodeCase:
    members: tuple[_Member, ...]


@rule(
    "hypernode-members",
    says="member must have at least one member",
    about="a HyperNode has members",
    is_final=True,
    cel=Cel(
        "has(object.spec) && has(object.spec.members) && size(object.spec.members) > 0",
        "member must have at least one member",
    ),
)
def has_members(case: HyperNodeCase) -> Faults:
    if not case.members:
        yield ()


@rule(
    "hypernode-pattern",
    says="member regexMatch pattern is invalid: %s",
    about="a pattern is a regular expression",
    is_final=True,
)
def pattern_compiles(case: HyperNodeCase) -> Faults:
    for member in case.members:
        if member.selector.regex_match is not None:
            fault = _pattern_fault(member.selector.regex_match.pattern)
            if fault:
                yield (fault,)


RULES: Final[tuple[Rule[HyperNodeCase], ...]] = (has_members, pattern_compiles)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:  # noqa: ARG001  # one signature for all
    case = HyperNodeCase(shape_of(_HyperNode, review, "HyperNode").spec.members)
    faults, _ = faults_of(RULES, case, surroundings)
    return verdict_of(faults, message=faults[0].text if faults else "")


def queues_named(_: Review) -> set[str]:
    return set()


def _pattern_fault(pattern: str) -> str:
    if len(pattern) > _MAX_PATTERN:
        return f"it has {len(pattern)} characters, more than {_MAX_PATTERN}"
    try:
        with warnings.catch_warnings(action="ignore"):  # what only looks odd is in order
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as fault:
        return f"error parsing regexp: {fault}: `{pattern[:64]}`"
    return ""
