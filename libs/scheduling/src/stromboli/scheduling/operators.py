"""Find what a pod asks with an operator that does not exist.

Such a condition picks no node and no neighbour, whatever was meant by it. An API server lets none
in; where there is none, somebody should be told rather than wait for ever.
"""

from collections.abc import Iterator
from typing import Final

from stromboli.api.core import Pod, PodAffinity, PodAffinityTerm
from stromboli.api.selectors import LabelSelector, Operator, Requirement

__all__ = ["unknown_operator"]

_OF_NODES: Final = tuple(operator.value for operator in Operator)
_OF_LABELS: Final = tuple(name for name in _OF_NODES if name not in {Operator.GT, Operator.LT})


def unknown_operator(pod: Pod) -> str:
    """What is wrong with the first of them; empty if nothing is, as nearly always."""
    if pod.spec.affinity is None and not pod.spec.topology_spread_constraints:
        return ""
    for where, requirements, known in _asked(pod):
        for one in requirements:
            if one.operator not in known:
                return (
                    f"its {where} has the operator {one.operator!r}, "
                    f"expected one of {', '.join(known)}"
                )
    return ""


def _asked(pod: Pod) -> Iterator[tuple[str, tuple[Requirement, ...], tuple[str, ...]]]:
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        of_nodes = affinity.node_affinity
        required = of_nodes.required_during_scheduling_ignored_during_execution
        terms = list(required.node_selector_terms) if required is not None else []
        preferred = of_nodes.preferred_during_scheduling_ignored_during_execution
        terms += [one.preference for one in preferred]
        for term in terms:
            yield "node affinity", (*term.match_expressions, *term.match_fields), _OF_NODES
    if affinity is not None:
        for where, side in (
            ("pod affinity", affinity.pod_affinity),
            ("pod anti-affinity", affinity.pod_anti_affinity),
        ):
            for term in _terms(side):
                for selector in (term.label_selector, term.namespace_selector):
                    yield where, _requirements(selector), _OF_LABELS
    for spread in pod.spec.topology_spread_constraints:
        yield "topology spread", _requirements(spread.label_selector), _OF_LABELS


def _terms(side: PodAffinity | None) -> list[PodAffinityTerm]:
    if side is None:
        return []
    preferred = side.preferred_during_scheduling_ignored_during_execution
    return [
        *side.required_during_scheduling_ignored_during_execution,
        *(one.pod_affinity_term for one in preferred),
    ]


def _requirements(selector: LabelSelector | None) -> tuple[Requirement, ...]:
    return selector.match_expressions if selector is not None else ()
