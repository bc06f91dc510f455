"""Room that others were told to leave belongs to the pods that they left it for.

That holds whether the plugin is configured or not (`freed_room`); configurations that name it,
because it once had to be named, still mean what they say.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.plugins.arguments import read_arguments

NAME: Final = "ownership"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Ownership:
    """Has nothing to add."""

    name = NAME
    is_even_handed = True


def build(arguments: Mapping[str, Any]) -> Ownership:
    read_arguments(NAME, Args, arguments)
    return Ownership()
