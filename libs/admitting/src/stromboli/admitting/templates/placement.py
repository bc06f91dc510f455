"""Where pods may go: node selectors, affinity, tolerations and spread."""

from collections.abc import Iterator, Sequence
from typing import Final

from stromboli.admitting.names import label_value_faults, qualified_name_faults
from stromboli.admitting.templates.cases import TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import (
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from stromboli.admitting.templates.shapes import (
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
)
from stromboli.api.selectors import LabelSelector, Requirement

__all__ = ["affinity", "node_selector", "spread", "tolerations"]

_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_SPREAD_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")
_COMPARISONS: Final = ("Gt", "Lt")


@template_rule(
    "node-selector", fields=("node_selector",), about="keys and values are those of labels"
)
def node_selector(case: TemplateCase) -> Iterator[str]:
    yield from label_map_faults(f"{case.spec_path}.nodeSelector", case.spec.node_selector)


def label_map_faults(place: str, labels: dict[str, str]) -> Iterator[str]:
    for key, value in labels.items():
        yield from all_invalid(place, key, qualified_name_faults(key))
        yield from all_invalid(place, value, label_value_faults(value))


@template_rule(
    "tolerations",
    fields=("tolerations",),
    about="operators and effects are known, values fit the operator, and only NoExecute has a time",
)
def tolerations(case: TemplateCase) -> Iterator[str]:
    for index, toleration in enumerate(case.spec.tolerations):
        yield from _toleration(f"{case.spec_path}.tolerations[{index}]", toleration)


def _toleration(place: str, one: Toleration) -> Iterator[str]:
    if one.key:
        yield from all_invalid(f"{place}.key", one.key, qualified_name_faults(one.key))
    elif one.operator != "Exists":
        detail = (
            'operator must be Exists when `key` is empty, which means "match all values '
            'and all keys"'
        )
        yield invalid(f"{place}.operator", one.operator, detail)
    if one.toleration_seconds is not None and one.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{place}.effect", one.effect, detail)
    match one.operator:
        case "" | "Equal":
            yield from all_invalid(f"{place}.operator", one.value, label_value_faults(one.value))
        case "Exists":
            if one.value:
                detail = "value must be empty when `operator` is 'Exists'"
                yield invalid(f"{place}.operator", one.value, detail)
        case _:
            yield unsupported(f"{place}.operator", one.operator, ("Equal", "Exists"))
    if one.effect and one.effect not in _EFFECTS:
        yield unsupported(f"{place}.effect", one.effect, _EFFECTS)


@template_rule(
    "affinity",
    fields=("affinity",),
    about="terms have keys, operators and the values these need; weights are 1 to 100; pod "
    "affinity names a topology key",
)
def affinity(case: TemplateCase) -> Iterator[str]:
    asked = case.spec.affinity
    if asked is None:
        return
    place = f"{case.spec_path}.affinity"
    if asked.node_affinity is not None:
        yield from _node_affinity(f"{place}.nodeAffinity", asked.node_affinity)
    if asked.pod_affinity is not None:
        yield from _pod_affinity(f"{place}.podAffinity", asked.pod_affinity)
    if asked.pod_anti_affinity is not None:
        yield from _pod_affinity(f"{place}.podAntiAffinity", asked.pod_anti_affinity)


@template_rule(
    "topology-spread",
    fields=("topology_spread_constraints",),
    about="skew and domains are positive, the topology key is given, the action is known, and no "
    "pair of the two stands twice",
)
def spread(case: TemplateCase) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for index, one in enumerate(case.spec.topology_spread_constraints):
        place = f"{case.spec_path}.topologySpreadConstraints[{index}]"
        if one.max_skew <= 0:
            yield invalid(f"{place}.maxSkew", one.max_skew, "must be greater than zero")
        yield from _topology_key(f"{place}.topologyKey", one.topology_key)
        if one.when_unsatisfiable not in _SPREAD_ACTIONS:
            field = f"{place}.whenUnsatisfiable"
            yield unsupported(field, one.when_unsatisfiable, _SPREAD_ACTIONS)
        pair = (one.topology_key, one.when_unsatisfiable)
        if pair in seen:
            yield duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", ", ".join(pair))
        seen.add(pair)
        if one.min_domains is not None:
            if one.min_domains <= 0:
                yield invalid(f"{place}.minDomains", one.min_domains, "must be greater than zero")
            if one.when_unsatisfiable != "DoNotSchedule":
                detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule"
                yield invalid(f"{place}.minDomains", one.min_domains, detail)
        if one.label_selector is not None:
            yield from _selector(f"{place}.labelSelector", one.label_selector)


def _node_affinity(place: str, asked: NodeAffinity) -> Iterator[str]:
    needed = asked.required_during_scheduling_ignored_during_execution
    if needed is not None:
        where = f"{place}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not needed.node_selector_terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(needed.node_selector_terms):
            yield from _node_term(f"{where}[{index}]", term)
    for index, wish in enumerate(asked.preferred_during_scheduling_ignored_during_execution):
        where = f"{place}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight(f"{where}.weight", wish.weight)
        yield from _node_term(f"{where}.preference", wish.preference)


def _node_term(place: str, term: NodeSelectorTerm) -> Iterator[str]:
    yield from _requirements(f"{place}.matchExpressions", term.match_expressions, of_nodes=True)
    for index, one in enumerate(term.match_fields):
        where = f"{place}.matchFields[{index}]"
        if one.operator not in _WITH_VALUES:
            yield unsupported(f"{where}.operator", one.operator, _WITH_VALUES)
        elif len(one.values) != 1:
            yield required(f"{where}.values", "must be only one value when `operator` is 'In'")
        if one.key != "metadata.name":
            yield invalid(f"{where}.key", one.key, "not a valid field selector key")


def _pod_affinity(place: str, asked: PodAffinity) -> Iterator[str]:
    for index, term in enumerate(asked.required_during_scheduling_ignored_during_execution):
        where = f"{place}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _pod_term(where, term)
    for index, wish in enumerate(asked.preferred_during_scheduling_ignored_during_execution):
        where = f"{place}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight(f"{where}.weight", wish.weight)
        yield from _pod_term(f"{where}.podAffinityTerm", wish.pod_affinity_term)


def _pod_term(place: str, term: PodAffinityTerm) -> Iterator[str]:
    yield from _topology_key(f"{place}.topologyKey", term.topology_key)
    if term.label_selector is not None:
        yield from _selector(f"{place}.labelSelector", term.label_selector)
    if term.namespace_selector is not None:
        yield from _selector(f"{place}.namespaceSelector", term.namespace_selector)


def _topology_key(place: str, key: str) -> Iterator[str]:
    if not key:
        yield required(place, "can not be empty")
    else:
        yield from all_invalid(place, key, qualified_name_faults(key))


def _weight(place: str, weight: int) -> Iterator[str]:
    if not 1 <= weight <= 100:
        yield invalid(place, weight, "must be in the range 1-100")


def _selector(place: str, selector: LabelSelector) -> Iterator[str]:
    yield from label_map_faults(f"{place}.matchLabels", selector.match_labels)
    expressions = selector.match_expressions
    yield from _requirements(f"{place}.matchExpressions", expressions, of_nodes=False)


def _requirements(
    place: str, requirements: Sequence[Requirement], *, of_nodes: bool
) -> Iterator[str]:
    for index, one in enumerate(requirements):
        where = f"{place}[{index}]"
        yield from all_invalid(f"{where}.key", one.key, qualified_name_faults(one.key))
        if one.operator in _WITH_VALUES:
            if not one.values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required(f"{where}.values", detail)
            for value in one.values:
                yield from all_invalid(f"{where}.values", value, label_value_faults(value))
        elif one.operator in _WITHOUT_VALUES:
            if one.values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{where}.values", detail)
        elif of_nodes and one.operator in _COMPARISONS:
            if len(one.values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{where}.values", detail)
        else:
            known = _WITH_VALUES + _WITHOUT_VALUES + (_COMPARISONS if of_nodes else ())
            yield unsupported(f"{where}.operator", one.operator, known)
