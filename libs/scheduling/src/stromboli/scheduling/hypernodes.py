"""HyperNodes as they are given: who is a member of which, and what of it can't be true.

A HyperNode that can't be reckoned with is set aside with its reason, and all others go on: they
only lose a choice, and a job is never spread wider than it said because of that. Which nodes a
pattern or a selector picks is kept by name and renewed only for nodes that changed.
"""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stromboli.api.errors import SelectorError
from stromboli.api.selectors import LabelSelector
from stromboli.api.topology import HyperNode, Member, MemberType
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.network import Network, Part
from stromboli.scheduling.nodes import NodeFacts, NodeTable

__all__ = ["HyperNodeInfo", "HyperNodes", "Sorted", "read_hyper_node", "sorted_out"]

_LONGEST_PATTERN: Final = 4096


@dataclass(frozen=True, slots=True)
class HyperNodeInfo:
    """What a HyperNode says."""

    name: str
    tier: int
    tier_name: str = ""
    nodes: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    selectors: tuple[LabelSelector, ...] = ()
    parts: tuple[str, ...] = ()
    """HyperNodes in it, by name."""

    @property
    def picks(self) -> bool:
        """Whether nodes are members for what they are, not by name."""
        return bool(self.patterns or self.selectors)

    def has(self, node: NodeFacts) -> bool:
        """Whether a pattern or a selector picks the node."""
        if any(pattern.search(node.name) for pattern in self.patterns):
            return True
        labels = dict(node.labels) if self.selectors else {}
        return any(selector.matches(labels) for selector in self.selectors)


def read_hyper_node(item: HyperNode) -> HyperNodeInfo:
    """Raises BadFact for members that nobody can find."""
    name, spec = item.metadata.name, item.spec
    if spec.tier < 0:
        raise BadFact(f"hypernode {name}", f"its tier is {spec.tier}, expected 0 or more")
    nodes: list[str] = []
    patterns: list[re.Pattern[str]] = []
    selectors: list[LabelSelector] = []
    parts: list[str] = []
    for member in spec.members:
        selector = member.selector
        if member.type == MemberType.HYPER_NODE:
            parts.append(_exact_name(name, member))
        elif member.type != MemberType.NODE:
            raise BadFact(
                f"hypernode {name}", f"a member is a {member.type!r}, expected Node or HyperNode"
            )
        elif selector.regex_match is not None:
            patterns.append(_readable_pattern(name, selector.regex_match.pattern))
        elif selector.label_match is not None:
            selectors.append(_readable_selector(name, selector.label_match))
        else:
            nodes.append(_exact_name(name, member))
    return HyperNodeInfo(
        name,
        spec.tier,
        spec.tier_name,
        tuple(nodes),
        tuple(patterns),
        tuple(selectors),
        tuple(parts),
    )


def _exact_name(name: str, member: Member) -> str:
    exact = member.selector.exact_match
    if exact is None or not exact.name:
        raise BadFact(f"hypernode {name}", f"a member {member.type} has no exactMatch with a name")
    return exact.name


def _readable_pattern(name: str, pattern: str) -> re.Pattern[str]:
    if len(pattern) > _LONGEST_PATTERN:
        raise BadFact(
            f"hypernode {name}",
            f"a pattern has {len(pattern)} characters, expected at most {_LONGEST_PATTERN}",
        )
    try:
        with warnings.catch_warnings(action="ignore"):  # what only looks odd is in order
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as fault:
        raise BadFact(f"hypernode {name}", f"the pattern {pattern!r}: {fault}") from fault


def _readable_selector(name: str, selector: LabelSelector) -> LabelSelector:
    try:
        selector.matches({})
    except SelectorError as fault:
        raise BadFact(f"hypernode {name}", str(fault)) from fault
    return selector


@dataclass(frozen=True, slots=True)
class Sorted:
    """HyperNodes, by what can be made of them."""

    usable: dict[str, HyperNodeInfo]
    """By tier and name."""
    parents: dict[str, str]
    """Of those that have one."""
    problems: dict[str, str]
    """Of those that are set aside."""
    incomplete: dict[str, str]
    """Of those that name a HyperNode that is not there: they go on without it."""


def sorted_out(given: Iterable[HyperNodeInfo]) -> Sorted:
    """What can be reckoned with.

    Below means of a lower tier, which rules out circles. Who has a second parent stays with the
    first, by tier and name, and the second is set aside.
    """
    infos = {info.name: info for info in given}
    problems: dict[str, str] = {}
    for info in infos.values():
        high = [part for part in info.parts if part in infos and infos[part].tier >= info.tier]
        if high:
            part = infos[high[0]]
            problems[info.name] = (
                f"it is set aside: its member {part.name} has tier {part.tier}, expected less than "
                f"its own {info.tier}"
            )
    parents: dict[str, str] = {}
    usable: dict[str, HyperNodeInfo] = {}
    incomplete: dict[str, str] = {}
    for info in sorted(infos.values(), key=lambda info: (info.tier, info.name)):
        if info.name in problems:
            continue
        taken = [part for part in info.parts if part in parents]
        if taken:
            problems[info.name] = (
                f"it is set aside: its member {taken[0]} is in {parents[taken[0]]} already"
            )
            continue
        missing = [part for part in info.parts if part not in usable]
        if missing:
            incomplete[info.name] = (
                f"it goes on without its member {missing[0]}: that is not usable"
            )
        parents.update(dict.fromkeys((p for p in info.parts if p in usable), info.name))
        usable[info.name] = info
    return Sorted(usable, parents, problems, incomplete)


@dataclass(slots=True)
class HyperNodes:
    """All that are known, and the network that they and the nodes make."""

    problems: dict[str, str] = field(default_factory=dict[str, str])
    """By name: why one is set aside."""
    incomplete: dict[str, str] = field(default_factory=dict[str, str])
    """By name: which member one goes on without."""
    _infos: dict[str, HyperNodeInfo] = field(default_factory=dict[str, HyperNodeInfo])
    _picked: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """By HyperNode: the nodes that its patterns and selectors pick."""
    _seen: int = 0
    """The version of the nodes up to which `_picked` is right."""
    _network: Network | None = None
    _of: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self._infos)

    def put(self, info: HyperNodeInfo) -> bool:
        """Whether that is news."""
        if self._infos.get(info.name) == info:
            return False
        self._infos[info.name] = info
        self._picked.pop(info.name, None)
        self._network = None
        return True

    def remove(self, name: str) -> bool:
        self._picked.pop(name, None)
        self._network = None
        return self._infos.pop(name, None) is not None

    def network(self, nodes: NodeTable) -> Network:
        """Over the nodes as they are; they have been put in order."""
        now = (nodes.layout, nodes.version)
        if self._network is None or self._of != now:
            self._pick(nodes)
            self._network, self._of = self._made(nodes), now
        return self._network

    def _pick(self, nodes: NodeTable) -> None:
        changed = [nodes.facts[slot] for slot in np.flatnonzero(nodes.versions > self._seen)]
        for info in self._infos.values():
            if not info.picks:
                continue
            picked = self._picked.get(info.name)
            if picked is None:
                found = {facts.name: None for facts in nodes.facts if info.has(facts)}
                self._picked[info.name] = found
                continue
            for facts in changed:
                if info.has(facts):
                    picked[facts.name] = None
                else:
                    picked.pop(facts.name, None)
        self._seen = nodes.version

    def _made(self, nodes: NodeTable) -> Network:
        found = sorted_out(self._infos.values())
        usable, parents = found.usable, found.parents
        self.problems, self.incomplete = found.problems, found.incomplete
        slots: dict[str, dict[int, None]] = {}
        for info in usable.values():  # members come before those that they are in
            inside: dict[int, None] = {}
            for name in (*info.nodes, *self._picked.get(info.name, ())):
                slot = nodes.slot(name)
                if slot is not None:
                    inside[slot] = None
            for part in info.parts:
                if parents.get(part) == info.name:
                    inside.update(slots[part])
            slots[info.name] = inside
        tier_names: dict[str, int] = {}
        for info in usable.values():
            if info.tier_name:
                tier_names[info.tier_name] = info.tier  # the highest of that name
        return Network(
            parts=[
                Part(
                    info.name,
                    info.tier,
                    parents.get(info.name, ""),
                    np.array(sorted(slots[info.name]), dtype=np.int64),
                )
                for info in usable.values()
                if slots[info.name]
            ],
            nodes=len(nodes),
            top_tier=max((info.tier for info in usable.values()), default=0) + 1,
            tier_names=tier_names,
        )
