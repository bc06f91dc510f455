"""Volumes of a pod: their names, and one source each."""

from collections.abc import Iterator
from typing import Final

import msgspec

from stromboli.admitting.names import label_faults
from stromboli.admitting.templates.cases import TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import all_invalid, duplicate, forbidden, required
from stromboli.admitting.templates.shapes import Volume
from stromboli.admitting.templates.sources import SOURCE_CHECKS

__all__ = ["volume_names", "volume_sources"]

_SOURCES: Final = tuple(
    (field.name, field.encode_name)
    for field in msgspec.structs.fields(Volume)
    if field.name != "name"
)


@template_rule(
    "volume-names", fields=("volumes",), about="a volume has a name, a DNS label, of its own"
)
def volume_names(case: TemplateCase) -> Iterator[str]:
    seen: set[str] = set()
    for index, volume in enumerate(case.spec.volumes):
        place = f"{case.spec_path}.volumes[{index}].name"
        if not volume.name:
            yield required(place)
            continue
        yield from all_invalid(place, volume.name, label_faults(volume.name))
        if volume.name in seen:
            yield duplicate(place, volume.name)
        seen.add(volume.name)


@template_rule(
    "volume-sources",
    fields=("volumes",),
    about="a volume has one source at most; ConfigMaps, Secrets and claims are named, paths are "
    "given and do not climb, modes are 0 to 0777, sizes are not negative",
)
def volume_sources(case: TemplateCase) -> Iterator[str]:
    for index, volume in enumerate(case.spec.volumes):
        place = f"{case.spec_path}.volumes[{index}]"
        given = 0
        for field, wire_name in _SOURCES:
            source = getattr(volume, field)
            if source is not None:
                given += 1
                yield from SOURCE_CHECKS[field](f"{place}.{wire_name}", source)
        if given > 1:
            yield forbidden(place, "may not specify more than 1 volume type")
