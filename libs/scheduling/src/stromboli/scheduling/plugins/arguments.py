"""Read the arguments of a plugin or an action into its Struct; a misspelt key is refused.

As in Volcano, a number or a switch may be written as text ("2", "true").
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from stromboli.scheduling.errors import BadConfiguration, BadFile, BadValue

__all__ = ["read_arguments"]

S = TypeVar("S", bound=msgspec.Struct)

_IN_WORDS: Final[Mapping[object, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
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
        try:
            msgspec.convert(value, fields[name], strict=False)
        except msgspec.ValidationError as fault:
            expected = _IN_WORDS.get(fields[name]) or str(fault).partition(" - at ")[0]
            what = f"the argument {name!r} of {plugin}"
            problems.append(str(BadValue(what, value, expected.removeprefix("Expected "))))
    if problems:
        raise BadFile(problems)
    return msgspec.convert(dict(given), type_, strict=False)
