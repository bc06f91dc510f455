"""Plugin arguments, read as Go's flag package reads them.

`-x=v`, `--x=v` and `--x v` are the same; a switch needs no value. From the first argument on
that is not understood, nothing is: the plugin then runs with what it got so far and defaults.
"""

from collections.abc import Mapping, Sequence

__all__ = ["is_true", "read_arguments"]

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def is_true(value: str) -> bool:
    return value in _TRUE


def read_arguments(
    arguments: Sequence[str], defaults: Mapping[str, str], *, switches: Sequence[str] = ()
) -> dict[str, str]:
    """The value of every flag in `defaults`; those in `switches` are true or false."""
    values = dict(defaults)
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, has_value, value = argument.lstrip("-").partition("=")
        dashes = len(argument) - len(argument.lstrip("-"))
        if dashes not in (1, 2) or name not in values:
            break
        if name in switches:
            value = value if has_value else "true"
            if value not in _TRUE | _FALSE:
                break
        elif not has_value:
            if not rest:
                break
            value = rest.pop(0)
        values[name] = value
    return values
