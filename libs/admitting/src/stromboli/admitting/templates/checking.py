"""Look a pod template over: every rule of the table, on the pod and on each container."""

from collections.abc import Iterator
from typing import Final

import msgspec

from stromboli.admitting.questions import Json
from stromboli.admitting.reading import without_nulls
from stromboli.admitting.rules import MAX_FAULTS
from stromboli.admitting.templates import (
    amounts,
    containers,
    environment,
    mounting,
    placement,
    podspec,
    ports,
    probes,
    security,
    volumes,
)
from stromboli.admitting.templates.cases import ContainerCase, TemplateCase, TemplateRule
from stromboli.admitting.templates.shapes import PodSpec, PodTemplate
from stromboli.api.errors import QuantityError
from stromboli.api.quantity import parse_quantity

__all__ = ["CONTAINER_RULES", "POD_RULES", "cpu_is_whole", "template_faults"]

POD_RULES: Final[tuple[TemplateRule[TemplateCase], ...]] = (
    podspec.labels,
    containers.container_names,
    volumes.volume_names,
    volumes.volume_sources,
    ports.host_ports_apart,
    podspec.policies,
    podspec.dns,
    podspec.names,
    podspec.times,
    amounts.pod_amounts,
    security.pod_security,
    placement.node_selector,
    placement.tolerations,
    placement.affinity,
    placement.spread,
    podspec.host_aliases,
    podspec.gates,
    podspec.no_ephemeral,
)
CONTAINER_RULES: Final[tuple[TemplateRule[ContainerCase], ...]] = (
    containers.container_images,
    containers.container_policies,
    ports.port_names,
    ports.port_numbers,
    environment.env_names,
    environment.env_sources,
    environment.env_from,
    amounts.resource_names,
    amounts.amounts,
    amounts.requests_within_limits,
    amounts.claims,
    mounting.mounts,
    mounting.devices,
    mounting.mount_paths,
    probes.probe_handlers,
    probes.probe_numbers,
    probes.hooks,
    probes.init_probes,
    security.container_security,
)


def template_faults(template: Json, path: str = "template") -> list[str]:
    """What is wrong with a template, in the words of the core API."""
    try:
        read = _typed(template)
    except msgspec.ValidationError as fault:
        return [f"{path}: Invalid value: {fault}"]
    case = TemplateCase(read, read.spec, path, f"{path}.spec")
    found: list[str] = []
    for rule in POD_RULES:
        if rule.concerns(read.spec):
            found.extend(rule.check(case))
    for one in _containers(case):
        for rule in CONTAINER_RULES:
            if rule.concerns(one.container):
                found.extend(rule.check(one))
        if len(found) > MAX_FAULTS:
            break
    return found[:MAX_FAULTS]


def cpu_is_whole(template: Json) -> list[bool]:
    """Of every container, whether it asks for a whole number of cpus, and at least one."""
    try:
        spec = _typed(template).spec
    except msgspec.ValidationError:
        return []
    asked = [
        (one.resources.requests or one.resources.limits).get("cpu", "0")
        for one in (*spec.containers, *spec.init_containers)
    ]
    return [_is_whole(amount) for amount in asked]


def _is_whole(amount: str | float) -> bool:
    try:
        quantity = parse_quantity(amount)
    except QuantityError:
        return True  # it has been complained about
    return quantity.nano > 0 and quantity.nano % 10**9 == 0


def _typed(template: Json) -> PodTemplate:
    try:
        return msgspec.convert(template, PodTemplate)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(template), PodTemplate)


def _containers(case: TemplateCase) -> Iterator[ContainerCase]:
    spec = case.spec
    names = frozenset(volume.name for volume in spec.volumes)
    devices = _block_volumes(spec)
    for field, group in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for index, container in enumerate(group):
            yield ContainerCase(
                container=container,
                path=f"{case.spec_path}.{field}[{index}]",
                spec=spec,
                is_init=field == "initContainers",
                volumes=names,
                devices=devices,
            )


def _block_volumes(spec: PodSpec) -> frozenset[str]:
    return frozenset(
        volume.name
        for volume in spec.volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    )
