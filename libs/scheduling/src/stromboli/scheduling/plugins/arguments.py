"""Read the arguments of a plugin or an action into its Struct; a misspelt key is refused.

As in Volcano, a number or a switch may be written as text ("2", "true").
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from stromboli.scheduling.errors import BadConfiguration

__all__ = ["read_arguments"]

S = TypeVar("S", bound=msgspec.Struct)


def read_arguments(plugin: str, type_: type[S], given: Mapping[str, Any]) -> S:
    known = [field.encode_name for field in msgspec.structs.fields(type_)]
    for name in given:
        if name not in known:
            raise BadConfiguration(f"the argument of {plugin}", name, known or ("none",))
    try:
        return msgspec.convert(dict(given), type_, strict=False)
    except msgspec.ValidationError as fault:
        raise BadConfiguration(f"an argument of {plugin}", str(fault), known) from fault
