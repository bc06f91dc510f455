"""PodGroups: the namespace's queue where none was chosen, and the queue a gang may use."""

from dataclasses import dataclass
from typing import Final

from stromboli.admitting.access import FORBIDDEN, NOT_A_GUEST, may_submit
from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.jobs.topology import BOTH_TIERS, both_tiers_cel, has_both_tiers
from stromboli.admitting.patching import Patch
from stromboli.admitting.paths import UPDATE
from stromboli.admitting.questions import ALLOWED, Review, Surroundings, UserInfo, Verdict
from stromboli.admitting.queues.states import state_of
from stromboli.admitting.reading import old_of, read
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
from stromboli.api.kinds import VC_POD_GROUP
from stromboli.api.scheduling import PodGroup, QueueState
from stromboli.api.wellknown import DEFAULT_QUEUE, SCHEDULING_QUEUE_NAME

__all__ = ["DEFAULTS", "RULES", "GroupCase", "mutate", "queues_named", "validate"]


@dataclass(frozen=True, slots=True)
class GroupCase:
    group: PodGroup
    namespace: str
    user: UserInfo
    surroundings: Surroundings
    conf: AdmissionConf


@default(
    "podgroup-queue",
    about="a PodGroup in queue `default` goes to the queue that its namespace names in the "
    "annotation `scheduling.volcano.sh/queue-name`",
)
def namespace_queue(case: GroupCase, patch: Patch) -> None:
    if case.group.spec.queue in ("", DEFAULT_QUEUE):
        annotations = case.surroundings.namespace_annotations(case.namespace)
        queue = annotations.get(SCHEDULING_QUEUE_NAME, "")
        if queue and queue != case.group.spec.queue:
            patch.set("spec", "queue", value=queue)


@rule(
    "podgroup-queue-exists",
    says="unable to find queue: %s",
    about="the queue of a PodGroup exists",
    needs_cluster=True,
)
def queue_exists(case: GroupCase) -> Faults:
    name = case.group.spec.queue
    if name and case.surroundings.queue(name) is None:
        yield (name,)


@rule(
    "podgroup-queue-open",
    says="can only submit PodGroup to queue with state `Open`, queue `%s` status is `%s`.",
    about="the queue of a PodGroup is open; one that has no state yet counts as open",
    needs_cluster=True,
)
def queue_open(case: GroupCase) -> Faults:
    queue = case.surroundings.queue(case.group.spec.queue) if case.group.spec.queue else None
    if queue is not None and state_of(queue) != QueueState.OPEN:
        yield case.group.spec.queue, state_of(queue)


@rule(
    "podgroup-network-tiers",
    says=BOTH_TIERS + ".",
    about="the highest tier is given by number or by name",
    cel=Cel(
        f"!has(object.spec.networkTopology) || {both_tiers_cel('object.spec.networkTopology')}",
        BOTH_TIERS,
    ),
)
def network_tiers(case: GroupCase) -> Faults:
    if has_both_tiers(case.group.spec.network_topology):
        yield ()


@rule(
    "podgroup-subgroup-tiers",
    says="in subGroupPolicy '%s': " + BOTH_TIERS + ".",
    about="in a sub-group policy, too, the highest tier is given by number or by name",
    cel=Cel(
        "!has(object.spec.subGroupPolicy) || object.spec.subGroupPolicy.all(p, "
        f"!has(p.networkTopology) || {both_tiers_cel('p.networkTopology')})",
        "in subGroupPolicy: " + BOTH_TIERS,
    ),
)
def subgroup_tiers(case: GroupCase) -> Faults:
    for policy in case.group.spec.sub_group_policy:
        if has_both_tiers(policy.network_topology):
            yield (policy.name,)


@rule(
    "podgroup-queue-access",
    says=NOT_A_GUEST,
    about="whoever makes a PodGroup, or moves it, is named by the queue, if it names anybody",
    origin=OURS,
    needs_cluster=True,
    code=FORBIDDEN,
)
def queue_access(case: GroupCase) -> Faults:
    name = case.group.spec.queue or DEFAULT_QUEUE
    queue = case.surroundings.queue(name)
    if queue is not None and not may_submit(
        queue,
        case.user,
        namespace=case.namespace,
        made_as=case.group.metadata,
        conf=case.conf,
    ):
        yield case.user.username, case.namespace, name


DEFAULTS: Final[tuple[Default[GroupCase], ...]] = (namespace_queue,)
RULES: Final[tuple[Rule[GroupCase], ...]] = (
    queue_exists,
    queue_open,
    network_tiers,
    subgroup_tiers,
    queue_access,
)


def mutate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    case = _case(review, surroundings, conf)
    if case.group.spec.queue in ("", DEFAULT_QUEUE) and not surroundings.is_synced:
        return verdict_of((), message="", skipped=True)
    patch = Patch(review.object)
    for each in DEFAULTS:
        each.fill(case, patch)
    return Verdict(allowed=True, patch=patch.operations or None)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    """On updates only a move to another queue matters; statuses are written all the time."""
    case = _case(review, surroundings, conf)
    if review.operation == UPDATE and (
        old_of(VC_POD_GROUP, review).spec.queue == case.group.spec.queue
    ):
        return ALLOWED
    faults, skipped = faults_of(RULES, case, surroundings)
    return verdict_of(faults, message="; ".join(one.text for one in faults), skipped=skipped)


def queues_named(review: Review) -> set[str]:
    return {read(VC_POD_GROUP, review).spec.queue or DEFAULT_QUEUE}


def _case(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> GroupCase:
    group = read(VC_POD_GROUP, review)
    return GroupCase(group, review.namespace, review.user_info, surroundings, conf)
