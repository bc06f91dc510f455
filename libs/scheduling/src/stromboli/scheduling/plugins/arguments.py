"""Read the arguments of a plugin or an action into its Struct; a misspelt key is refused.

As in Volcano, a number or a switch may be written as text ("2", "true").
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from stromboli.scheduling.errors import BadConfiguration, BadFile, BadValue

__all__ = ["Percent", "Weight", "WeightedResources", "read_arguments", "weight_of"]

_HEAVIEST: Final = 1_000_000

Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_HEAVIEST)]
"""Of something that makes nodes better: a negative one would make the worst the best."""
Percent: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=100)]

S = TypeVar("S", bound=msgspec.Struct)

_IN_WORDS: Final[Mapping[object, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Weight: f"a whole number from 0 to {_HEAVIEST}",
    Percent: "a number from 0 to 100",
}


def read_arguments(plugin: str, type_: type[S], given: Mapping[str, Any]) -> S:
    """Raises BadFile with all that is wrong with them."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    problems: list[str] = []
    for name, value in given.items():
        if name not in fields:
            known = tuple(fields) or ("none",)
            problems.append(str(BadConfiguration(f"the argument of {plugin}", name, known)))
            continue
        what = f"the argument {name!r} of {plugin}"
        try:
            read = msgspec.convert(value, fields[name], strict=False)
        except msgspec.ValidationError as fault:
            expected = _IN_WORDS.get(fields[name]) or str(fault).removeprefix("Expected ")
            problems.append(str(BadValue(what, value, expected)))
        else:
            if isinstance(read, float) and not math.isfinite(read):
                problems.append(str(BadValue(what, value, _IN_WORDS[float])))
    if problems:
        raise BadFile(problems)
    return msgspec.convert(dict(given), type_, strict=False)


@dataclass(frozen=True, slots=True)
class WeightedResources:
    """Arguments that give resources weights: `<key>` lists names, `<key>.<name>` has a weight."""

    plugin: str
    key: str

    def apart(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """All other arguments, and the weights."""
        prefix = f"{self.key}."
        weights = {name: value for name, value in given.items() if name.startswith(prefix)}
        return {name: given[name] for name in given if name not in weights}, weights

    def read(self, listed: str, weights: Mapping[str, Any]) -> dict[str, int]:
        """The weight of each name in a list with commas; one that has none weighs 1."""
        names = [name for part in listed.split(",") if (name := part.strip())]
        known = {f"{self.key}.{name}": name for name in names}
        for key in weights:
            if key not in known:
                raise BadConfiguration(f"the argument of {self.plugin}", key, known or ["none"])
        return {name: weight_of(self.plugin, weights.get(key, 1)) for key, name in known.items()}


def weight_of(plugin: str, given: Any) -> int:
    """A whole number; one below 0 counts as 1, as in Volcano."""
    try:
        return weight if (weight := int(given)) >= 0 else 1
    except (TypeError, ValueError):
        raise BadValue(f"a weight of {plugin}", given, "a whole number") from None
