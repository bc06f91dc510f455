"""Decide about queues: defaults, then what a queue says of itself, then its place in the tree."""

from collections.abc import Sequence

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.patching import Patch
from stromboli.admitting.paths import DELETE, UPDATE
from stromboli.admitting.questions import Review, Surroundings, Verdict
from stromboli.admitting.queues.cases import QueueCase, QueueEnd
from stromboli.admitting.queues.defaults import DEFAULTS
from stromboli.admitting.queues.deleting import DELETE_RULES
from stromboli.admitting.queues.shares import SHARE_RULES
from stromboli.admitting.queues.tree import TREE_RULES
from stromboli.admitting.reading import old_of, read
from stromboli.admitting.rules import Fault, faults_of, verdict_of
from stromboli.api.kinds import QUEUE
from stromboli.api.wellknown import ROOT_QUEUE

__all__ = ["mutate", "queues_named", "validate"]


def mutate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:  # noqa: ARG001  # one signature for all
    queue = read(QUEUE, review)
    patch = Patch(review.object)
    for each in DEFAULTS:
        each.fill(queue, patch)
    return Verdict(allowed=True, patch=patch.operations or None)


def validate(review: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    if review.operation == DELETE:
        end = QueueEnd(_doomed(review), surroundings, conf)
        faults, skipped = faults_of(DELETE_RULES, end, surroundings)
        return verdict_of(faults, message=_aggregate(faults), skipped=skipped)
    old = old_of(QUEUE, review) if review.operation == UPDATE else None
    case = QueueCase(read(QUEUE, review), old, surroundings, conf)
    faults, shares_skipped = faults_of(SHARE_RULES, case, surroundings)
    tree_skipped = False
    if not faults:
        faults, tree_skipped = faults_of(TREE_RULES, case, surroundings)
    return verdict_of(
        faults, message=_aggregate(faults), skipped=_matters(case, shares_skipped or tree_skipped)
    )


def queues_named(review: Review) -> set[str]:
    if review.operation == DELETE:
        return set()
    parent = read(QUEUE, review).spec.parent
    return {parent} if parent not in ("", ROOT_QUEUE) else set()


def _doomed(review: Review) -> str:
    if review.name:
        return review.name
    return old_of(QUEUE, review).metadata.name


def _matters(case: QueueCase, skipped: bool) -> bool:  # noqa: FBT001  # it is the answer so far
    """A queue whose place and shares stay as they are can be judged without the others."""
    return skipped and (case.is_moved or case.shares_changed)


def _aggregate(faults: Sequence[Fault]) -> str:
    """As Go prints a list of field errors: one plainly, several in brackets, none twice."""
    texts = list(dict.fromkeys(one.text for one in faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
