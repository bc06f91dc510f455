"""What containers ask for: known resources, readable amounts, requests within limits."""

from collections.abc import Iterator, Mapping
from typing import Final

from stromboli.admitting.names import qualified_name_faults
from stromboli.admitting.resources import (
    amount_fault,
    amounts_of,
    is_extended,
    is_huge_page,
    is_native,
)
from stromboli.admitting.templates.cases import ContainerCase, TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import forbidden, invalid, required
from stromboli.admitting.templates.shapes import Resources
from stromboli.api.fieldtypes import QuantityText

__all__ = ["amounts", "claims", "pod_amounts", "requests_within_limits", "resource_names"]

_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS: Final = frozenset({"cpu", "memory"})


@template_rule(
    "resource-names",
    about="resources are cpu, memory, ephemeral-storage, huge pages, or named with a domain",
)
def resource_names(case: ContainerCase) -> Iterator[str]:
    for field, listed in _lists(case.container.resources):
        for name in listed:
            fault = _name_fault(name)
            if fault:
                yield invalid(f"{case.path}.resources.{field}", name, fault)


@template_rule(
    "resource-amounts", about="amounts are quantities, not negative, and whole for devices"
)
def amounts(case: ContainerCase) -> Iterator[str]:
    yield from _amount_faults(f"{case.path}.resources", case.container.resources)


@template_rule(
    "requests-within-limits",
    about="requests do not exceed limits; those of devices and huge pages equal them; huge pages "
    "come with cpu or memory",
)
def requests_within_limits(case: ContainerCase) -> Iterator[str]:
    resources = case.container.resources
    if not resources.requests and not resources.limits:
        return
    place = f"{case.path}.resources"
    yield from _excess(place, resources)
    asked = resources.requests.keys() | resources.limits.keys()
    if any(map(is_huge_page, asked)) and not asked & {"cpu", "memory"}:
        yield forbidden(place, "HugePages require cpu or memory")


@template_rule("resource-claims", about="containers name claims that the pod has")
def claims(case: ContainerCase) -> Iterator[str]:
    known = {claim.name for claim in case.spec.resource_claims}
    for index, claim in enumerate(case.container.resources.claims):
        place = f"{case.path}.resources.claims[{index}].name"
        if not claim.name:
            yield required(place)
        elif claim.name not in known:
            yield f'{place}: Not found: "{claim.name}"'


@template_rule(
    "pod-resources",
    fields=("resources",),
    about="what the pod as a whole asks for: cpu, memory and huge pages",
)
def pod_amounts(case: TemplateCase) -> Iterator[str]:
    resources = case.spec.resources
    if resources is None:
        return
    place = f"{case.spec_path}.resources"
    for field, listed in _lists(resources):
        for name in listed:
            if name not in _OF_PODS and not is_huge_page(name):
                yield invalid(f"{place}.{field}", name, "must be a standard resource for pods")
    yield from _amount_faults(place, resources)
    yield from _excess(place, resources)


def _lists(resources: Resources) -> tuple[tuple[str, Mapping[str, QuantityText]], ...]:
    return ("limits", resources.limits), ("requests", resources.requests)


def _name_fault(name: str) -> str:
    if name in _OF_CONTAINERS:
        return ""
    faults = qualified_name_faults(name)
    if faults:
        return faults[0]
    if "/" not in name and not is_huge_page(name):
        return "must be a standard resource for containers"
    if not is_native(name) and not is_extended(name):
        return "doesn't follow extended resource name standard"
    return ""


def _amount_faults(place: str, resources: Resources) -> Iterator[str]:
    for field, listed in _lists(resources):
        for name, amount in listed.items():
            fault = amount_fault(name, amount)
            if fault:
                yield invalid(f"{place}.{field}[{name}]", str(amount), fault)


def _excess(place: str, resources: Resources) -> Iterator[str]:
    limits = amounts_of(resources.limits)
    for name, amount in amounts_of(resources.requests).items():
        limit = limits.get(name)
        is_shared = is_native(name) and not is_huge_page(name)
        if limit is None:
            if not is_shared:
                detail = "Limit must be set for non overcommitable resources"
                yield required(f"{place}.limits", detail)
        elif amount != limit and not is_shared:
            detail = f"must be equal to {name} limit of {limit}"
            yield invalid(f"{place}.requests", str(amount), detail)
        elif amount > limit:
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{place}.requests", str(amount), detail)
