"""What a pod asks of its neighbours: ports, nearness to others, distance from them, an even spread.

Read once per template into values that can be compared and hashed, so that pods of one template
share a class. Selectors that say "of my own namespace", or name labels to be copied from the pod
itself, are resolved here: afterwards a term means the same whoever looks at it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from stromboli.api.core import (
    Affinity,
    Container,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from stromboli.api.errors import SelectorError
from stromboli.api.selectors import LabelSelector, Operator, Requirement

__all__ = [
    "ANY_ADDRESS",
    "NamespaceLabels",
    "Port",
    "Selector",
    "Social",
    "Spread",
    "Term",
    "read_social",
]

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - how Kubernetes writes "every address of the node"

_INSISTING: Final = 1
"""Kubernetes' weight of a required term, where preferences are counted."""

Port: TypeAlias = tuple[str, int, str]
"""Protocol, number, and address on the node."""
NamespaceLabels: TypeAlias = Mapping[str, Mapping[str, str]]


class Selector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A label selector as a value."""

    labels: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    """Kubernetes: a selector that is absent picks nothing, an empty one picks everything."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        try:
            return all(labels.get(key) == value for key, value in self.labels) and all(
                requirement.matches(labels) for requirement in self.requirements
            )
        except SelectorError:
            return False  # the API server lets no such operator in


class Term(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Some pods, and the label of nodes whose equal values mean "near"."""

    topology: str
    selector: Selector
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None

    def matches(self, namespace: str, labels: Mapping[str, str], known: NamespaceLabels) -> bool:
        return self._reaches(namespace, known) and self.selector.matches(labels)

    def _reaches(self, namespace: str, known: NamespaceLabels) -> bool:
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        return selector is not None and selector.matches(known.get(namespace, {}))


class Spread(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A topology spread constraint."""

    term: Term
    max_skew: int
    is_hard: bool
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


class Social(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Everything about a pod that depends on who is there already."""

    ports: tuple[Port, ...] = ()
    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    likes: tuple[tuple[int, Term], ...] = ()
    """Weights and terms; a weight below 0 is a dislike."""
    spreads: tuple[Spread, ...] = ()

    @property
    def all_likes(self) -> tuple[tuple[int, Term], ...]:
        """With those it insists on: a pod that is wanted near is also liked near."""
        return (*self.likes, *((_INSISTING, term) for term in self.near))


def read_social(pod: Pod) -> Social | None:
    """None for most pods: they do not care."""
    spec = pod.spec
    affinity = spec.affinity
    sociable = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    ports = _ports(spec.containers, spec.init_containers)
    if not ports and not sociable and not spec.topology_spread_constraints:
        return None
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    near, apart, likes = _affinity(affinity, namespace, labels)
    spreads = tuple(_spread(one, namespace, labels) for one in spec.topology_spread_constraints)
    found = Social(ports=ports, near=near, apart=apart, likes=likes, spreads=spreads)
    return None if found == _CARELESS else _interned(found)


_CARELESS: Final = Social()


@lru_cache(maxsize=1 << 12)
def _interned(social: Social) -> Social:
    return social


def _ports(containers: tuple[Container, ...], starting: tuple[Container, ...]) -> tuple[Port, ...]:
    """Init containers hold ports only if they stay (sidecars)."""
    found = [
        (port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*containers, *starting)
        if container not in starting or container.restart_policy == "Always"
        for port in container.ports
        if port.host_port > 0
    ]
    return tuple(sorted(set(found)))


_Affine: TypeAlias = tuple[tuple[Term, ...], tuple[Term, ...], tuple[tuple[int, Term], ...]]


def _affinity(affinity: Affinity | None, namespace: str, labels: Mapping[str, str]) -> _Affine:
    near: list[Term] = []
    apart: list[Term] = []
    likes: list[tuple[int, Term]] = []
    if affinity is not None:
        for side, required, sign in (
            (affinity.pod_affinity, near, 1),
            (affinity.pod_anti_affinity, apart, -1),
        ):
            if side is None:
                continue
            required += [
                _term(one, namespace, labels)
                for one in side.required_during_scheduling_ignored_during_execution
            ]
            likes += [
                (sign * one.weight, _term(one.pod_affinity_term, namespace, labels))
                for one in side.preferred_during_scheduling_ignored_during_execution
            ]
    return tuple(near), tuple(apart), tuple(likes)


def _term(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> Term:
    selector = _selector(term.label_selector)
    copied = [
        Requirement(key=key, operator=Operator.IN, values=(labels[key],))
        for key in term.match_label_keys
        if key in labels
    ]
    copied += [
        Requirement(key=key, operator=Operator.NOT_IN, values=(labels[key],))
        for key in term.mismatch_label_keys
        if key in labels
    ]
    others = term.namespace_selector
    own = not term.namespaces and others is None
    return Term(
        topology=term.topology_key,
        selector=_with(selector, copied),
        namespaces=(namespace,) if own else tuple(sorted(term.namespaces)),
        namespace_selector=None if others is None else _selector(others),
    )


def _spread(
    constraint: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str]
) -> Spread:
    copied = [
        Requirement(key=key, operator=Operator.IN, values=(labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    ]
    return Spread(
        term=Term(
            topology=constraint.topology_key,
            selector=_with(_selector(constraint.label_selector), copied),
            namespaces=(namespace,),
        ),
        max_skew=constraint.max_skew,
        is_hard=constraint.when_unsatisfiable != "ScheduleAnyway",
        min_domains=constraint.min_domains or 1,
        honors_affinity=constraint.node_affinity_policy != "Ignore",
        honors_taints=constraint.node_taints_policy == "Honor",
    )


def _selector(selector: LabelSelector | None) -> Selector:
    if selector is None:
        return Selector(nothing=True)
    return Selector(
        labels=tuple(sorted(selector.match_labels.items())),
        requirements=selector.match_expressions,
    )


def _with(selector: Selector, more: list[Requirement]) -> Selector:
    """The API server copies these itself; for those that it has copied already, no change."""
    new = tuple(one for one in more if one not in selector.requirements)
    if not new or selector.nothing:
        return selector
    return Selector(labels=selector.labels, requirements=(*selector.requirements, *new))
