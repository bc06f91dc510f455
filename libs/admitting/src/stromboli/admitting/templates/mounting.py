"""Where containers find the volumes of their pod."""

from collections.abc import Iterator
from typing import Final

from stromboli.admitting.templates.cases import ContainerCase, template_rule
from stromboli.admitting.templates.fielderrors import (
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)
from stromboli.admitting.templates.shapes import VolumeMount
from stromboli.admitting.templates.sources import descending

__all__ = ["devices", "mount_paths", "mounts"]

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")


@template_rule(
    "volume-mounts",
    fields=("volume_mounts",),
    about="mounts name volumes of the pod; sub-paths are relative and do not climb; only "
    "privileged containers propagate mounts both ways",
)
def mounts(case: ContainerCase) -> Iterator[str]:
    for index, mount in enumerate(case.container.volume_mounts):
        place = f"{case.path}.volumeMounts[{index}]"
        if not mount.name:
            yield required(f"{place}.name")
        elif mount.name not in case.volumes:
            yield not_found(f"{place}.name", mount.name)
        yield from _sub_paths(place, mount)
        yield from _propagation(place, mount, case)


@template_rule("volume-devices", fields=("volume_devices",), about="devices are claims of the pod")
def devices(case: ContainerCase) -> Iterator[str]:
    for index, device in enumerate(case.container.volume_devices):
        place = f"{case.path}.volumeDevices[{index}]"
        if not device.name:
            yield required(f"{place}.name")
        elif device.name not in case.devices:
            detail = "can only use volume source type of PersistentVolumeClaim for block mode"
            yield invalid(f"{place}.name", device.name, detail)


@template_rule(
    "mount-paths",
    fields=("volume_mounts", "volume_devices"),
    about="every mount and device has a place of its own",
)
def mount_paths(case: ContainerCase) -> Iterator[str]:
    places = [
        *((f"volumeMounts[{i}].mountPath", m.mount_path)
          for i, m in enumerate(case.container.volume_mounts)),
        *((f"volumeDevices[{i}].devicePath", d.device_path)
          for i, d in enumerate(case.container.volume_devices)),
    ]  # fmt: skip
    taken: set[str] = set()
    for field, path in places:
        if not path:
            yield required(f"{case.path}.{field}")
        elif path in taken:
            yield invalid(f"{case.path}.{field}", path, "must be unique")
        taken.add(path)


def _sub_paths(place: str, mount: VolumeMount) -> Iterator[str]:
    if mount.sub_path and mount.sub_path_expr:
        detail = "subPathExpr and subPath are mutually exclusive"
        yield invalid(f"{place}.subPathExpr", mount.sub_path_expr, detail)
    if mount.sub_path:
        yield from descending(f"{place}.subPath", mount.sub_path)
    if mount.sub_path_expr:
        yield from descending(f"{place}.subPathExpr", mount.sub_path_expr)


def _propagation(place: str, mount: VolumeMount, case: ContainerCase) -> Iterator[str]:
    propagation, context = mount.mount_propagation, case.container.security_context
    if propagation is not None and propagation not in _PROPAGATIONS:
        yield unsupported(f"{place}.mountPropagation", propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not (context is not None and context.privileged):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{place}.mountPropagation", detail)
