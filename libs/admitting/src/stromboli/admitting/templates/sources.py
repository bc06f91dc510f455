"""Sources of volumes, one function each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.admitting.names import subdomain_faults
from stromboli.admitting.resources import amount_fault
from stromboli.admitting.templates.environment import field_path_faults, resource_faults
from stromboli.admitting.templates.fielderrors import (
    all_invalid,
    forbidden,
    invalid,
    required,
    unsupported,
)
from stromboli.admitting.templates.shapes import (
    DownwardItem,
    DownwardSource,
    ItemSource,
    KeyToPath,
    Mode,
    Projected,
    ProjectedSource,
    ServiceAccountToken,
    VolumeSource,
)

__all__ = ["SOURCE_CHECKS", "descending"]

_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_DOWNWARD_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
)  # fmt: skip
_SHORTEST_TOKEN_S: Final = 600
_LONGEST_TOKEN_S: Final = 2**32


def descending(place: str, path: str) -> Iterator[str]:
    """What is wrong with a path that must stay below where it starts."""
    if path.startswith("/"):
        yield invalid(place, path, "must be a relative path")
    if ".." in path.split("/"):
        yield invalid(place, path, "must not contain '..'")


def _config_map(place: str, source: ItemSource) -> Iterator[str]:
    if not source.name:
        yield required(f"{place}.name")
    yield from _mode(f"{place}.defaultMode", source.default_mode)
    yield from _items(place, source.items)


def _secret(place: str, source: ItemSource) -> Iterator[str]:
    if not source.secret_name:
        yield required(f"{place}.secretName")
    yield from _mode(f"{place}.defaultMode", source.default_mode)
    yield from _items(place, source.items)


def _claim(place: str, source: VolumeSource) -> Iterator[str]:
    if not source.claim_name:
        yield required(f"{place}.claimName")
    else:
        faults = subdomain_faults(source.claim_name)
        yield from all_invalid(f"{place}.claimName", source.claim_name, faults)


def _host_path(place: str, source: VolumeSource) -> Iterator[str]:
    if not source.path:
        yield required(f"{place}.path")
    elif ".." in source.path.split("/"):
        yield invalid(f"{place}.path", source.path, "must not contain '..'")
    if source.type is not None and source.type not in _HOST_PATH_TYPES:
        yield unsupported(f"{place}.type", source.type, _HOST_PATH_TYPES)


def _nfs(place: str, source: VolumeSource) -> Iterator[str]:
    if not source.server:
        yield required(f"{place}.server")
    if not source.path:
        yield required(f"{place}.path")
    elif not source.path.startswith("/"):
        yield invalid(f"{place}.path", source.path, "must be an absolute path")


def _empty_dir(place: str, source: VolumeSource) -> Iterator[str]:
    fault = amount_fault("memory", source.size_limit) if source.size_limit is not None else ""
    if fault:
        yield forbidden(f"{place}.sizeLimit", f"SizeLimit field {fault}")


def _csi(place: str, source: VolumeSource) -> Iterator[str]:
    if not source.driver:
        yield required(f"{place}.driver")


def _ephemeral(place: str, source: VolumeSource) -> Iterator[str]:
    if source.volume_claim_template is None:
        yield required(f"{place}.volumeClaimTemplate")


def _downward(place: str, source: DownwardSource) -> Iterator[str]:
    yield from _mode(f"{place}.defaultMode", source.default_mode)
    for index, item in enumerate(source.items):
        yield from _downward_item(f"{place}.items[{index}]", item)


def _projected(place: str, source: Projected) -> Iterator[str]:
    yield from _mode(f"{place}.defaultMode", source.default_mode)
    for index, one in enumerate(source.sources):
        yield from _projection(f"{place}.sources[{index}]", one)


SOURCE_CHECKS: Final[Mapping[str, Callable[[str, Any], Iterator[str]]]] = {
    "config_map": _config_map,
    "csi": _csi,
    "downward_api": _downward,
    "empty_dir": _empty_dir,
    "ephemeral": _ephemeral,
    "host_path": _host_path,
    "nfs": _nfs,
    "persistent_volume_claim": _claim,
    "projected": _projected,
    "secret": _secret,
}
"""By the field of `Volume`: what is wrong with a source that is given."""


def _projection(place: str, source: ProjectedSource) -> Iterator[str]:
    given = sum(one is not None for one in msgspec.structs.astuple(source))
    if not given:
        yield required(place)
    elif given > 1:
        yield forbidden(place, "may not specify more than 1 volume type per source")
    for field, items in (("configMap", source.config_map), ("secret", source.secret)):
        if items is not None:
            if not items.name:
                yield required(f"{place}.{field}.name")
            yield from _items(f"{place}.{field}", items.items)
    if source.downward_api is not None:
        yield from _downward(f"{place}.downwardAPI", source.downward_api)
    if source.service_account_token is not None:
        yield from _token(f"{place}.serviceAccountToken", source.service_account_token)


def _token(place: str, token: ServiceAccountToken) -> Iterator[str]:
    seconds = token.expiration_seconds
    if seconds is not None and not _SHORTEST_TOKEN_S <= seconds <= _LONGEST_TOKEN_S:
        detail = "may not specify a duration less than 10 minutes or larger than 2^32 seconds"
        yield invalid(f"{place}.expirationSeconds", seconds, detail)
    if not token.path:
        yield required(f"{place}.path")


def _items(place: str, items: Sequence[KeyToPath]) -> Iterator[str]:
    for index, item in enumerate(items):
        where = f"{place}.items[{index}]"
        if not item.key:
            yield required(f"{where}.key")
        yield from _file_path(f"{where}.path", item.path)
        yield from _mode(f"{where}.mode", item.mode)


def _downward_item(place: str, item: DownwardItem) -> Iterator[str]:
    yield from _file_path(f"{place}.path", item.path)
    yield from _mode(f"{place}.mode", item.mode)
    if item.field_ref is not None:
        path = item.field_ref.field_path
        yield from field_path_faults(f"{place}.fieldRef.fieldPath", path, _DOWNWARD_FIELDS)
        if item.resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(place, "resource", detail)
    elif item.resource_field_ref is not None:
        resource = item.resource_field_ref.resource
        yield from resource_faults(f"{place}.resourceFieldRef.resource", resource)
    else:
        yield required(place, "one of fieldRef and resourceFieldRef is required")


def _file_path(place: str, path: str) -> Iterator[str]:
    if not path:
        yield required(place)
        return
    yield from descending(place, path)
    if path.startswith("..") and ".." not in path.split("/"):
        yield invalid(place, path, "must not start with '..'")


def _mode(place: str, mode: Mode | None) -> Iterator[str]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(place, mode, _MODE)
