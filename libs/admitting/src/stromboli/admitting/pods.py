"""Pods: what their resource group gives them, the gate of their queue, and disruption budgets."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from stromboli.admitting.access import FORBIDDEN, NOT_A_GUEST, may_submit
from stromboli.admitting.conf import AdmissionConf, ResourceGroup
from stromboli.admitting.patching import Patch
from stromboli.admitting.questions import ALLOWED, Json, Review, Surroundings, UserInfo, Verdict
from stromboli.admitting.reading import read
from stromboli.admitting.rules import (
    OURS,
    Cel,
    Default,
    Faults,
    Rule,
    default,
    faults_of,
    rule,
    verdict_of,
)
from stromboli.api.core import Pod
from stromboli.api.kinds import POD
from stromboli.api.wellknown import (
    DEFAULT_QUEUE,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    QUEUE_ALLOCATION_GATE,
    RESOURCE_GROUP,
    SCHEDULING_QUEUE_NAME,
    VOLCANO_GROUP_NAME,
)

__all__ = ["DEFAULTS", "RULES", "PodCase", "mutate", "queues_named", "validate"]

_BUDGETS: Final = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_PERCENT: Final = re.compile(r"([0-9]{1,18})%")


@dataclass(frozen=True, slots=True)
class PodCase:
    pod: Pod
    raw: Json
    namespace: str
    user: UserInfo
    surroundings: Surroundings
    conf: AdmissionConf

    @property
    def group(self) -> ResourceGroup | None:
        """The first resource group that the pod is in."""
        return next((group for group in self.conf.resource_groups if self._is_in(group)), None)

    def _is_in(self, group: ResourceGroup) -> bool:
        annotations = self.pod.metadata.annotations
        match group.object.key:
            case "namespace":
                return self.namespace in group.object.value
            case "annotation":
                pairs = (entry.partition(":") for entry in group.object.value)
                return any(
                    annotations.get(key.strip()) == value.strip()
                    for key, colon, value in pairs
                    if colon
                )
            case _:
                name = annotations.get(RESOURCE_GROUP)
                return name is not None and name == group.resource_group

    @property
    def queue(self) -> str:
        """Where the pod's PodGroup is, or will be made."""
        annotations = self.pod.metadata.annotations
        group_name = annotations.get(GROUP_NAME) or annotations.get(VOLCANO_GROUP_NAME)
        if group_name:
            group = self.surroundings.pod_group(self.namespace, group_name)
            if group is not None:
                return group.spec.queue or DEFAULT_QUEUE
        named = annotations.get(SCHEDULING_QUEUE_NAME, "")
        inherited = self.surroundings.namespace_annotations(self.namespace)
        return named or inherited.get(SCHEDULING_QUEUE_NAME, "") or DEFAULT_QUEUE


@default("pod-node-selector", about="the labels of its resource group join the node selector")
def node_selector(case: PodCase, patch: Patch) -> None:
    group, own = case.group, case.pod.spec.node_selector
    for key, value in group.labels.items() if group is not None else ():
        if own.get(key) != value:
            patch.set("spec", "nodeSelector", key, value=value)


@default("pod-affinity", about="the affinity of its resource group, if the pod has none")
def affinity(case: PodCase, patch: Patch) -> None:
    group = case.group
    if group is not None and group.affinity and case.pod.spec.affinity is None:
        patch.set("spec", "affinity", value=_decoded(group.affinity))


@default("pod-tolerations", about="the tolerations of its resource group are appended")
def tolerations(case: PodCase, patch: Patch) -> None:
    group = case.group
    own: Json = case.raw["spec"].get("tolerations") if "spec" in case.raw else None
    missing = [one for one in group.tolerations if one not in (own or [])] if group else []
    if missing and not own:
        patch.set("spec", "tolerations", value=missing)
    else:
        for toleration in missing:
            patch.set("spec", "tolerations", "-", value=toleration)


@default("pod-scheduler", about="the scheduler of its resource group, whichever the pod named")
def scheduler(case: PodCase, patch: Patch) -> None:
    group = case.group
    if group is not None and group.scheduler_name not in ("", case.pod.spec.scheduler_name):
        patch.set("spec", "schedulerName", value=group.scheduler_name)


@default(
    "pod-queue-gate",
    about='a pod annotated `scheduling.volcano.sh/queue-allocation-gate: "true"` gets the '
    "scheduling gate of that name (feature gate SchedulingGatesQueueAdmission); this needs no "
    "resource groups, as it does in Volcano",
)
def queue_gate(case: PodCase, patch: Patch) -> None:
    if not case.conf.scheduling_gates:
        return
    if case.pod.metadata.annotations.get(QUEUE_ALLOCATION_GATE) != "true":
        return
    gates = case.pod.spec.scheduling_gates
    if any(gate.name == QUEUE_ALLOCATION_GATE for gate in gates):
        return
    gate = {"name": QUEUE_ALLOCATION_GATE}
    if gates:
        patch.set("spec", "schedulingGates", "-", value=gate)
    else:
        patch.set("spec", "schedulingGates", value=[gate])


DEFAULTS: Final[tuple[Default[PodCase], ...]] = (
    node_selector,
    affinity,
    tolerations,
    scheduler,
    queue_gate,
)


def _of_budget(key: str, own: str) -> str:
    return (
        f"!has(object.metadata.annotations) || !('{key}' in object.metadata.annotations) || "
        + own.format(value=f"object.metadata.annotations['{key}']")
    )


def _budget_cel(own: str, message: str) -> Cel:
    both = " && ".join(f"({_of_budget(key, own)})" for key in _BUDGETS)
    return Cel(both, message)


@rule(
    "pod-budget-positive",
    says='invalid value <"%s"> for %s, it must be a positive integer',
    about="a disruption budget that is a number is positive",
    cel=_budget_cel(
        r"!{value}.matches('^[+-]?[0-9]{{1,18}}$') || int({value}) > 0",
        "it must be a positive integer",
    ),
)
def budget_positive(case: PodCase) -> Faults:
    for key, value in _budgets(case):
        if _INTEGER.fullmatch(value) and int(value) <= 0:
            yield value, key


@rule(
    "pod-budget-percentage",
    says='invalid value <"%s"> for %s, it must be a valid percentage which between 1%% ~ 99%%',
    about="a disruption budget that is a percentage is neither nothing nor everything",
    cel=_budget_cel(
        r"!{value}.endsWith('%') || {value}.matches('^[1-9][0-9]?%$')",
        "it must be a valid percentage which between 1% ~ 99%",
    ),
)
def budget_percentage(case: PodCase) -> Faults:
    for key, value in _budgets(case):
        if value.endswith("%"):
            number = _PERCENT.fullmatch(value)
            if number is None or not 0 < int(number[1]) < 100:
                yield value, key


@rule(
    "pod-budget-readable",
    says="invalid value %s for %s",
    about="a disruption budget is a number or a percentage",
)
def budget_readable(case: PodCase) -> Faults:
    for key, value in _budgets(case):
        if not value.endswith("%") and not _INTEGER.fullmatch(value):
            yield value, key


@rule(
    "pod-budget-single",
    says="not allow configure multiple annotations <[volcano.sh/jdb-min-available "
    "volcano.sh/jdb-max-unavailable]> at same time",
    about="a pod has one disruption budget",
    cel=Cel(
        "!has(object.metadata.annotations) || "
        f"!(('{JDB_MIN_AVAILABLE}' in object.metadata.annotations) && "
        f"('{JDB_MAX_UNAVAILABLE}' in object.metadata.annotations))",
        "not allow configure multiple annotations <[volcano.sh/jdb-min-available "
        "volcano.sh/jdb-max-unavailable]> at same time",
    ),
)
def budget_single(case: PodCase) -> Faults:
    if len(_budgets(case)) > 1:
        yield ()


@rule(
    "pod-queue-access",
    says=NOT_A_GUEST,
    about="whoever makes a pod for one of our schedulers is named by its queue, if that names "
    "anybody",
    origin=OURS,
    needs_cluster=True,
    code=FORBIDDEN,
)
def queue_access(case: PodCase) -> Faults:
    name = case.queue
    queue = case.surroundings.queue(name)
    if queue is not None and not may_submit(
        queue,
        case.user,
        namespace=case.namespace,
        made_as=case.pod.metadata,
        conf=case.conf,
    ):
        yield case.user.username, case.namespace, name


BUDGET_RULES: Final[tuple[Rule[PodCase], ...]] = (
    budget_positive,
    budget_percentage,
    budget_readable,
    budget_single,
)
RULES: Final[tuple[Rule[PodCase], ...]] = (*BUDGET_RULES, queue_access)


def mutate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    if not conf.resource_groups and not conf.scheduling_gates:
        return ALLOWED
    case = _case(review, surroundings, conf)
    patch = Patch(review.object)
    for each in DEFAULTS:
        each.fill(case, patch)
    return Verdict(allowed=True, patch=patch.operations or None)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    """Pods of our own services are made even before the queues are known: none is asked for."""
    case = _case(review, surroundings, conf)
    if case.pod.spec.scheduler_name not in conf.scheduler_names:
        return ALLOWED
    is_trusted = review.user_info.username in conf.trusted_users
    faults, skipped = faults_of(BUDGET_RULES if is_trusted else RULES, case, surroundings)
    return verdict_of(faults, message="; ".join(one.text for one in faults), skipped=skipped)


def queues_named(review: Review) -> set[str]:
    """Only the queue that the pod itself names; who inherits one relies on the view."""
    named = read(POD, review).metadata.annotations.get(SCHEDULING_QUEUE_NAME, "")
    return {named} if named else set()


def _case(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> PodCase:
    pod = read(POD, review)
    return PodCase(pod, review.object, review.namespace, review.user_info, surroundings, conf)


def _budgets(case: PodCase) -> list[tuple[str, str]]:
    annotations = case.pod.metadata.annotations
    return [(key, annotations[key]) for key in _BUDGETS if key in annotations]


@lru_cache(maxsize=64)
def _decoded(text: str) -> Json:
    return msgspec.json.decode(text)
