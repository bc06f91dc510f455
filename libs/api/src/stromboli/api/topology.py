"""topology.volcano.sh/v1alpha1: HyperNode, a part of the network whose nodes are close together.

A HyperNode's members are nodes, or HyperNodes below it. The lower its tier, the better its
members reach each other.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from stromboli.api.fieldtypes import ATOMIC_MAP, Int64, Shape, allowed, one_of
from stromboli.api.meta import Condition, KubeObject
from stromboli.api.scheduling import SUBDOMAIN
from stromboli.api.selectors import LabelSelector

__all__ = [
    "ExactMatch",
    "HyperNode",
    "HyperNodeCondition",
    "HyperNodeSpec",
    "HyperNodeStatus",
    "Member",
    "MemberSelector",
    "MemberType",
    "RegexMatch",
]

_ONE_SELECTOR: Final = Meta(
    extra_json_schema={
        "x-kubernetes-validations": [
            {
                "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
                "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
            },
            {
                "rule": (
                    "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + "
                    "(has(self.labelMatch) ? 1 : 0) <= 1"
                ),
                "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
            },
        ]
    }
)


class MemberType(StrEnum):
    NODE = "Node"
    HYPER_NODE = "HyperNode"


class ExactMatch(Shape):
    name: Annotated[str, allowed(required=True, minLength=1, maxLength=253, pattern=SUBDOMAIN)] = ""


class RegexMatch(Shape):
    pattern: Annotated[str, allowed(required=True, minLength=1)] = ""


class MemberSelector(Shape):
    """One of the three; HyperNodes are named exactly."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: Annotated[LabelSelector | None, ATOMIC_MAP] = None


class Member(Shape):
    """Nodes, or one HyperNode of a lower tier."""

    type: Annotated[str, one_of(MemberType, required=True)] = ""
    selector: Annotated[MemberSelector, _ONE_SELECTOR] = field(default_factory=MemberSelector)


class HyperNodeSpec(Shape):
    tier: Annotated[int, allowed(required=True, minimum=0)] = 0
    tier_name: Annotated[str, allowed(maxLength=253)] = ""
    members: Annotated[tuple[Member, ...], allowed(minItems=1)] = ()


class HyperNodeCondition(Condition):
    observed_generation: Int64 = 0


class HyperNodeStatus(Shape):
    conditions: tuple[HyperNodeCondition, ...] = ()
    node_count: Annotated[Int64, allowed(minimum=0)] = 0


class HyperNode(KubeObject):
    """A part of the network."""

    spec: HyperNodeSpec = field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = field(default_factory=HyperNodeStatus)
