"""What a queue says of itself: its shares, its state, its place in the old kind of hierarchy.

These are field errors in Go's form, gathered and printed together.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from stromboli.admitting.access import malformed_entries
from stromboli.admitting.queues.cases import QueueCase
from stromboli.admitting.resources import amount_fault
from stromboli.admitting.rules import OURS, Cel, Faults, Rule, rule
from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.quantity import Quantity, parse_quantity
from stromboli.api.scheduling import QueueState
from stromboli.api.wellknown import HIERARCHY, HIERARCHY_WEIGHTS

__all__ = ["SHARE_RULES"]

_ANNOTATIONS: Final = "requestBody.metadata.annotations"
_STATES: Final = (QueueState.OPEN, QueueState.CLOSED)


@rule(
    "queue-quantities",
    says='requestBody.spec.%s.%s: Invalid value: "%s": %s',
    about="amounts in `capability`, `deserved` and `guarantee` are quantities, not negative, and "
    "whole where the resource comes in pieces",
)
def quantities(case: QueueCase) -> Faults:
    spec = case.queue.spec
    for field, amounts in (
        ("capability", spec.capability),
        ("deserved", spec.deserved),
        ("guarantee.resource", spec.guarantee.resource),
    ):
        for resource, amount in amounts.items():
            fault = amount_fault(resource, amount)
            if fault:
                yield field, resource, amount, fault


@rule(
    "queue-deserved-missing",
    says='requestBody.spec.deserved.%s: Invalid value: "<nil>": '
    "deserved[%s] must be >= guarantee[%s]=%s",
    about="what is guaranteed is deserved",
    cel=Cel(
        "!has(object.spec.guarantee) || !has(object.spec.guarantee.resource) || "
        "object.spec.guarantee.resource.all(r, has(object.spec.deserved) && "
        "r in object.spec.deserved)",
        "deserved must be >= guarantee",
    ),
)
def deserved_missing(case: QueueCase) -> Faults:
    deserved = case.queue.spec.deserved
    for resource, amount in _readable(case.queue.spec.guarantee.resource):
        if resource not in deserved:
            yield resource, resource, resource, amount


@rule(
    "queue-deserved-below-guarantee",
    says='requestBody.spec.deserved.%s: Invalid value: "%s": '
    "deserved[%s]=%s must be >= guarantee[%s]=%s",
    about="a queue deserves no less than it is guaranteed",
    cel=Cel(
        "!has(object.spec.guarantee) || !has(object.spec.guarantee.resource) || "
        "!has(object.spec.deserved) || object.spec.guarantee.resource.all(r, "
        "!(r in object.spec.deserved) || quantity(string(object.spec.deserved[r]))"
        ".compareTo(quantity(string(object.spec.guarantee.resource[r]))) >= 0)",
        "deserved must be >= guarantee",
    ),
)
def deserved_below_guarantee(case: QueueCase) -> Faults:
    deserved = dict(_readable(case.queue.spec.deserved))
    for resource, amount in _readable(case.queue.spec.guarantee.resource):
        own = deserved.get(resource)
        if own is not None and own < amount:
            yield resource, own, resource, own, resource, amount


@rule(
    "queue-deserved-above-capability",
    says='requestBody.spec.deserved.%s: Invalid value: "%s": '
    "deserved[%s]=%s must be <= capability[%s]=%s",
    about="a queue deserves no more than it may use; a resource without capability is unlimited",
    cel=Cel(
        "!has(object.spec.capability) || !has(object.spec.deserved) || "
        "object.spec.deserved.all(r, !(r in object.spec.capability) || "
        "quantity(string(object.spec.deserved[r]))"
        ".compareTo(quantity(string(object.spec.capability[r]))) <= 0)",
        "deserved must be <= capability",
    ),
)
def deserved_above_capability(case: QueueCase) -> Faults:
    capability = dict(_readable(case.queue.spec.capability))
    for resource, amount in _readable(case.queue.spec.deserved):
        limit = capability.get(resource)
        if limit is not None and amount > limit:
            yield resource, amount, resource, amount, resource, limit


@rule(
    "queue-state",
    says='requestBody.spec.state: Invalid value: "%s": queue state must be in [Open Closed]',
    about="nobody but the controller sets other states; an update that does not touch the state "
    "is in order in any of them (Volcano refuses it while a queue is closing)",
)
def state(case: QueueCase) -> Faults:
    asked = case.queue.status.state
    before = case.old.status.state if case.old is not None else ""
    if asked and asked != before and asked not in _STATES:
        yield (asked,)


@rule(
    "queue-hierarchy-length",
    says=f'{_ANNOTATIONS}: Invalid value: "%s": '
    f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}",
    about="every step of the hierarchy has a weight",
    cel=Cel(
        "!has(object.metadata.annotations) || "
        f"(!('{HIERARCHY}' in object.metadata.annotations) && "
        f"!('{HIERARCHY_WEIGHTS}' in object.metadata.annotations)) || "
        f"(('{HIERARCHY}' in object.metadata.annotations) && "
        f"('{HIERARCHY_WEIGHTS}' in object.metadata.annotations) && "
        f"size(object.metadata.annotations['{HIERARCHY}'].split('/')) == "
        f"size(object.metadata.annotations['{HIERARCHY_WEIGHTS}'].split('/')))",
        f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}",
    ),
)
def hierarchy_length(case: QueueCase) -> Faults:
    path, weights = _hierarchy(case)
    if ((path or weights) and path.count("/") != weights.count("/")) or (weights and not path):
        yield (path,)


@rule(
    "queue-hierarchy-number",
    says=f'{_ANNOTATIONS}: Invalid value: "%s": %s in the %s is invalid number: '
    'strconv.ParseFloat: parsing "%s": invalid syntax',
    about="the weights of the hierarchy are numbers",
)
def hierarchy_number(case: QueueCase) -> Faults:
    path, weights = _hierarchy(case)
    if not path:
        return
    for each in weights.split("/"):
        if _number(each) is None:
            yield weights, each, weights, each
            return


@rule(
    "queue-hierarchy-positive",
    says=f'{_ANNOTATIONS}: Invalid value: "%s": %s in the %s must be larger than 0',
    about="the weights of the hierarchy are positive",
)
def hierarchy_positive(case: QueueCase) -> Faults:
    _, weights = _hierarchy(case)
    for each in weights.split("/"):
        number = _number(each)
        if number is not None and not number > 0:
            yield weights, each, weights
            return


@rule(
    "queue-hierarchy-path",
    says=f'{_ANNOTATIONS}: Invalid value: "%s": '
    "%s is not allowed to be in the sub path of %s of queue %s",
    about="no queue of the annotated hierarchy has another one below it",
    needs_cluster=True,
)
def hierarchy_path(case: QueueCase) -> Faults:
    path, _ = _hierarchy(case)
    if not path:
        return
    for other in case.surroundings.queues():
        theirs = other.metadata.annotations.get(HIERARCHY, "")
        if theirs.startswith(f"{path}/") and other.metadata.name != case.name:
            yield path, path, theirs, other.metadata.name
            return


@rule(
    "queue-access-lists",
    says=f'{_ANNOTATIONS}: Invalid value: "%s": a service account in '
    "stromboli.sh/submit-service-accounts is written namespace:name, or namespace:* for all of it",
    about="a list that can match nobody locks everybody out, so it is refused",
    origin=OURS,
)
def access_lists(case: QueueCase) -> Faults:
    for entry in malformed_entries(case.queue):
        yield (entry,)


SHARE_RULES: Final[tuple[Rule[QueueCase], ...]] = (
    quantities,
    deserved_missing,
    deserved_below_guarantee,
    deserved_above_capability,
    state,
    hierarchy_length,
    hierarchy_number,
    hierarchy_positive,
    hierarchy_path,
    access_lists,
)


def _hierarchy(case: QueueCase) -> tuple[str, str]:
    annotations = case.queue.metadata.annotations
    return annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")


def _number(text: str) -> float | None:
    # Go reads no surrounding space; Python would.
    if text != text.strip() or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _readable(amounts: Mapping[str, QuantityText]) -> Iterator[tuple[str, Quantity]]:
    """What can be compared; the rest has been complained about."""
    for resource, amount in amounts.items():
        try:
            yield resource, parse_quantity(amount)
        except QuantityError:
            continue
