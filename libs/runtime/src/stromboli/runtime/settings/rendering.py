"""Settings as text for people: `--help` and `--print-config`.

The help is generated, so it can't be out of date. The effective configuration is printed
as a YAML file with the source of each value as a comment: it can be saved and used with
`--config`, except for the secrets, which are never printed.
"""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from stromboli.runtime.redaction import STARS, redact_text
from stromboli.runtime.settings.schema import Group, Setting, env_prefix
from stromboli.runtime.units import Duration, Size

__all__ = ["effective_text", "help_text"]

_INDENT: Final = " " * 6
_RESERVED: Final = (
    ("--config FILE", "Read settings from this YAML or JSON file."),
    ("--print-config", "Print the effective settings with their sources, and exit."),
    ("--version", "Print the version and exit."),
    ("-h, --help", "Print this text and exit."),
)


def help_text(schema: Group, *, service: str, program: str, examples: Sequence[str] = ()) -> str:
    """Everything that can be set, in the order of the declaration."""
    prefix = env_prefix(service)
    out = [f"usage: {program} [--config FILE] [--KEY VALUE …]", ""]
    if schema.doc:
        out += [schema.doc, ""]
    out += [
        "Settings come from, lowest to highest: the defaults below, the file given by",
        f"--config (or {prefix}CONFIG), environment variables, flags.",
        "Durations have a unit (300ms, 4s, 1m30s), and so have sizes (512Ki, 1Mi).",
        "A secret is given by a file or a variable, never by a flag.",
        "",
    ]
    for group in schema.groups():
        settings = [member for member in group.members if isinstance(member, Setting)]
        if not settings:
            continue
        out.append(f"{'.'.join(group.path) or 'settings'}:")
        if group.path and group.doc:
            out += _wrapped(group.doc.split("\n\n")[0], "  ")
        for setting in settings:
            out += _help_of(setting)
        out.append("")
    out.append("always there:")
    for flag, text in _RESERVED:
        out += [f"  {flag}", *_wrapped(text, _INDENT)]
    out.append("")
    out.append("examples:")
    out += [f"  {example}" for example in examples or _default_examples(schema, program)]
    return "\n".join(out) + "\n"


def _help_of(setting: Setting) -> list[str]:
    if setting.is_secret:
        flag = f"{setting.flag}-file PATH"
    elif setting.is_switch:
        flag = f"{setting.flag}, --no-{setting.flag.removeprefix('--')}"
    else:
        flag = f"{setting.flag} {setting.kind.placeholder}"
    if setting.is_required:
        default = "required"
    elif setting.is_secret:
        default = "default: not set" if setting.default is None else "default: not shown"
    else:
        default = f"default: {_plain(setting.default)}"
    variables = f"{setting.env}, {setting.env}_FILE" if setting.is_secret else setting.env
    return [
        f"  {flag}",
        *_wrapped(setting.description, _INDENT),
        *_wrapped(f"Expected: {setting.kind.expected}; {default}.", _INDENT),
        f"{_INDENT}[{variables}]",
    ]


def _wrapped(text: str, indent: str) -> list[str]:
    width = min(100, max(60, shutil.get_terminal_size((100, 24)).columns))
    return textwrap.wrap(
        " ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent
    )


def _default_examples(schema: Group, program: str) -> list[str]:
    found = [f"{program} --config {program}.yaml --print-config"]
    for setting in schema.settings():
        if setting.is_secret or setting.is_switch or setting.default in (None, "", ()):
            continue
        if not setting.is_required:
            found.append(f"{program} {setting.flag} {_plain(setting.default)}")
            found.append(f"{setting.env}={_plain(setting.default)} {program}")
            break
    return found


def effective_text(
    schema: Group, settings: msgspec.Struct | None, origins: Mapping[tuple[str, ...], str]
) -> str:
    """The settings as YAML, each line followed by where its value came from."""
    return "\n".join(_lines(schema, settings, origins, "")) + "\n"


def _lines(
    group: Group, values: Any, origins: Mapping[tuple[str, ...], str], indent: str
) -> list[str]:
    out: list[str] = []
    for member in group.members:
        name = member.path[-1]
        value = getattr(values, name)
        if isinstance(member, Group):
            if value is None:
                out.append(f"{indent}# {name}: not set")
            else:
                out.append(f"{indent}{name}:")
                out += _lines(member, value, origins, f"{indent}  ")
            continue
        origin = origins.get(member.path, "default")
        if not member.is_secret:
            out.append(f"{indent}{name}: {_yaml(value)}  # {origin}")
        elif value is None:
            out.append(f"{indent}# {name}: not set  # {origin}")
        else:
            out.append(f"{indent}# {name}: {STARS}  # {origin}")
    return out


def _plain(value: Any) -> str:
    """A value as it would be written in a flag."""
    match value:
        case None:
            return "not set"
        case bool():
            return "true" if value else "false"
        case Enum():
            return str(value.value)
        case Duration() | Size() | Path() | int() | float():
            return str(value)
        case str():
            return redact_text(value) or "empty"
        case list() | tuple():
            items = cast("Sequence[Any]", value)
            return ",".join(_plain(item) for item in items) or "empty"
        case _:
            return msgspec.json.encode(value).decode()


def _yaml(value: Any) -> str:
    """A value as one line of YAML (which JSON is)."""
    return redact_text(msgspec.json.encode(_json_ready(value)).decode())


def _json_ready(value: Any) -> Any:
    match value:
        case Duration() | Size() | Path():
            return str(value)
        case list() | tuple():
            return [_json_ready(item) for item in cast("Sequence[Any]", value)]
        case _:
            return value
