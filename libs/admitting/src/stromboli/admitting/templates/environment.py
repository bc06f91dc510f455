"""Environment variables: where their values come from."""

import re
from collections.abc import Iterator
from typing import Final

from stromboli.admitting.names import qualified_name_faults
from stromboli.admitting.templates.cases import ContainerCase, template_rule
from stromboli.admitting.templates.fielderrors import all_invalid, invalid, required, unsupported
from stromboli.admitting.templates.shapes import EnvVarSource, KeyRef

__all__ = ["env_from", "env_names", "env_sources", "field_path_faults"]

_NAME: Final = re.compile(r"[ -<>-~]+")
"""Printable ASCII without `=`, which Kubernetes allows since 1.32."""
_NAME_FORM: Final = (
    "a valid environment variable name must consist only of printable ASCII "
    "characters other than '='"
)
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_ENV_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP",
    "status.podIPs",
)  # fmt: skip
_ENV_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")


def field_path_faults(place: str, field_path: str, known: tuple[str, ...]) -> list[str]:
    """What is wrong with a reference to a field of the pod."""
    if not field_path:
        return [required(place)]
    subscript = _SUBSCRIPT.fullmatch(field_path)
    if subscript is not None:
        key = subscript[2] if subscript[1] == "labels" else subscript[2].lower()
        return all_invalid(place, subscript[2], qualified_name_faults(key))
    return [] if field_path in known else [unsupported(place, field_path, known)]


def resource_faults(place: str, resource: str) -> list[str]:
    """What is wrong with a reference to what a container asks for."""
    if not resource:
        return [required(place)]
    if resource in _ENV_RESOURCES or resource.startswith(_PAGES):
        return []
    return [unsupported(place, resource, _ENV_RESOURCES)]


def key_faults(place: str, ref: KeyRef) -> list[str]:
    """What is wrong with a reference to a key in a ConfigMap or a Secret."""
    faults: list[str] = []
    if not ref.name:
        faults.append(required(f"{place}.name"))
    if not ref.key:
        faults.append(required(f"{place}.key"))
    elif len(ref.key) > 253 or ref.key in (".", "..") or not _CONFIG_KEY.fullmatch(ref.key):
        detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        faults.append(invalid(f"{place}.key", ref.key, detail))
    return faults


@template_rule(
    "env-names", fields=("env",), about="a variable has a name of printable ASCII without `=`"
)
def env_names(case: ContainerCase) -> Iterator[str]:
    for index, variable in enumerate(case.container.env):
        place = f"{case.path}.env[{index}].name"
        if not variable.name:
            yield required(place)
        elif not _NAME.fullmatch(variable.name):
            yield invalid(place, variable.name, _NAME_FORM)


@template_rule(
    "env-sources",
    fields=("env",),
    about="a variable has a value or one source; sources name fields, resources, ConfigMaps and "
    "Secrets that can exist",
)
def env_sources(case: ContainerCase) -> Iterator[str]:
    for index, variable in enumerate(case.container.env):
        source = variable.value_from
        if source is None:
            continue
        place = f"{case.path}.env[{index}].valueFrom"
        named = _named(source)
        if not named:
            detail = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                "`secretKeyRef`"
            )
            yield invalid(place, "", detail)
        elif variable.value:
            yield invalid(place, "", "may not be specified when `value` is not empty")
        elif named > 1:
            yield invalid(place, "", "may not have more than one field specified at a time")
        yield from _source_faults(place, source)


@template_rule(
    "env-from",
    fields=("env_from",),
    about="variables are taken from one ConfigMap or Secret, by name",
)
def env_from(case: ContainerCase) -> Iterator[str]:
    for index, source in enumerate(case.container.env_from):
        place = f"{case.path}.envFrom[{index}]"
        refs = [ref for ref in (source.config_map_ref, source.secret_ref) if ref is not None]
        if not refs:
            yield invalid(place, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(refs) > 1:
            yield invalid(place, "", "may not have more than one field specified at a time")
        if source.prefix and not _NAME.fullmatch(source.prefix):
            yield invalid(f"{place}.prefix", source.prefix, _NAME_FORM)
        if any(not ref.name for ref in refs):
            field = "configMapRef" if source.config_map_ref is not None else "secretRef"
            yield required(f"{place}.{field}.name")


def _named(source: EnvVarSource) -> int:
    return sum(
        one is not None
        for one in (
            source.field_ref,
            source.resource_field_ref,
            source.config_map_key_ref,
            source.secret_key_ref,
            source.file_key_ref,
        )
    )


def _source_faults(place: str, source: EnvVarSource) -> Iterator[str]:
    if source.field_ref is not None:
        path = source.field_ref.field_path
        yield from field_path_faults(f"{place}.fieldRef.fieldPath", path, _ENV_FIELDS)
    if source.resource_field_ref is not None:
        resource = source.resource_field_ref.resource
        yield from resource_faults(f"{place}.resourceFieldRef.resource", resource)
    if source.config_map_key_ref is not None:
        yield from key_faults(f"{place}.configMapKeyRef", source.config_map_key_ref)
    if source.secret_key_ref is not None:
        yield from key_faults(f"{place}.secretKeyRef", source.secret_key_ref)
