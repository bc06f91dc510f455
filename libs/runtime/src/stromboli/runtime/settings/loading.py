"""Load a service's settings: defaults < file < environment < flags.

Every problem is reported at once, each with the setting, where the value came from, what
was expected and what was given, because a service that is fixed one message at a time is
restarted ten times. A secret's value never appears in such a message.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

import msgspec

from stromboli.runtime.errors import SettingsError
from stromboli.runtime.redaction import Secret
from stromboli.runtime.settings import rendering
from stromboli.runtime.settings.files import from_file
from stromboli.runtime.settings.flags import from_flags
from stromboli.runtime.settings.schema import Group, Setting, schema_of
from stromboli.runtime.settings.sources import Findings, Given, from_environment
from stromboli.runtime.units import Duration, Size

__all__ = ["BAD_SETTINGS", "load", "load_or_exit"]

S = TypeVar("S", bound=msgspec.Struct)

BAD_SETTINGS: Final = 2
"""The exit code of a service that can't use its settings."""

_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def load(
    settings_type: type[S],
    *,
    service: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    program: str | None = None,
    version: str | None = None,
    examples: Sequence[str] = (),
) -> S:
    """The effective settings, or a SettingsError that lists every problem.

    `--help`, `--version` and `--print-config` print and raise SystemExit(0). The defaults
    of `argv` and `environ` are the process's own; `examples` are whole command lines for
    `--help`.
    """
    argv = sys.argv[1:] if argv is None else argv
    environ = os.environ if environ is None else environ
    program = program or f"stromboli-{service}"
    schema = schema_of(settings_type, service=service)

    flags = from_flags(schema, argv)
    if "help" in flags.reserved:
        _show(rendering.help_text(schema, service=service, program=program, examples=examples))
    if "version" in flags.reserved:
        _show(f"{program} {version or _installed_version(service)}\n")

    variables = from_environment(schema, environ, service=service)
    config = flags.reserved.get("config") or variables.reserved.get("config")
    file = from_file(schema, Path(config)) if config else Findings()

    loading = _Loading()
    for source in (file, variables, flags):
        loading.take(source)
    settings = loading.build(schema)
    if loading.problems:
        raise SettingsError(service, loading.problems)
    if "print_config" in flags.reserved:
        _show(rendering.effective_text(schema, settings, loading.origins))
    return cast("S", settings)


def load_or_exit(
    settings_type: type[S],
    *,
    service: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    examples: Sequence[str] = (),
) -> S:
    """`load` for a `__main__`: problems go to stderr and the process ends with code 2."""
    try:
        return load(settings_type, service=service, argv=argv, environ=environ, examples=examples)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(BAD_SETTINGS) from error


@dataclass(slots=True)
class _Loading:
    """The values chosen so far, and what was wrong with those that were given."""

    values: dict[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any])
    origins: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    problems: list[str] = field(default_factory=list[str])

    def take(self, source: Findings) -> None:
        """Accept a source whose values go before those taken earlier."""
        self.problems += source.problems
        seen: dict[tuple[str, ...], Given] = {}
        for given in source.given:
            path = given.setting.path
            if path in seen and seen[path].is_path_of_secret != given.is_path_of_secret:
                self.problems.append(
                    f"{given.setting.key}: given as a value ({seen[path].origin}) "
                    f"and as a file ({given.origin}); keep one"
                )
            seen[path] = given
            self.origins[path] = given.origin
            try:
                self.values[path] = _convert(given)
            except ValueError as error:
                self.problems.append(f"{given.setting.key} ({given.origin}): {error}")
                # A wrong value is a problem of its own, not also a missing one.
                self.values.setdefault(path, None)

    def build(self, group: Group) -> msgspec.Struct | None:
        """The Struct of a group, with defaults where nothing was given."""
        if group.is_optional and not any(
            setting.path in self.values for setting in group.settings()
        ):
            return None
        arguments: dict[str, Any] = {}
        for member in group.members:
            name = member.path[-1]
            if isinstance(member, Group):
                arguments[name] = self.build(member)
            elif member.path in self.values:
                arguments[name] = self.values[member.path]
            elif member.is_required:
                self.problems.append(f"{member.key}: must be set: {_ways_to_set(member)}")
            else:
                arguments[name] = member.default
        if self.problems:
            return None
        try:
            return group.type(**arguments)
        except (ValueError, TypeError) as error:
            where = ".".join(group.path) or group.type.__name__
            self.problems.append(f"{where}: {error}")
            return None


def _convert(given: Given) -> Any:
    """The typed value; a ValueError says what was expected and what was given."""
    setting, value = given.setting, given.value
    if given.is_path_of_secret:
        return Secret(_secret_in(str(value)))
    if given.is_text:
        value = _from_text(setting, str(value))
    try:
        return msgspec.convert(
            value, setting.type, strict=not given.is_text, dec_hook=_custom_types
        )
    except msgspec.ValidationError as error:
        shown = "a value that is not shown" if setting.is_secret else repr(given.value)
        raise ValueError(f"expected {setting.kind.expected}, got {shown}") from error


def _from_text(setting: Setting, text: str) -> Any:
    if setting.kind.is_list:
        return [part.strip() for part in text.split(",") if part.strip()]
    if setting.kind.is_json:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ValueError(f"expected {setting.kind.expected}, got {text!r}: {error}") from error
    if setting.is_switch:
        return _BOOLEANS.get(text.lower(), text)
    return text


def _secret_in(path: str) -> str:
    try:
        # Editors and `echo` end a file with a newline that is no part of the secret.
        content = Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file {path!r} can't be read: {error}") from error
    if not content:
        raise ValueError(f"the file {path!r} is empty; it should hold the secret")
    return content


def _custom_types(kind: type[Any], value: Any) -> Any:
    if kind in {Duration, Size} and isinstance(value, str):
        return kind.parse(value)
    if kind is Duration and value == 0:
        return Duration(0)
    if kind is Size and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Size(value)
    if kind in {Secret, Path} and isinstance(value, str):
        return kind(value)
    raise ValueError(f"not a {kind.__name__}: {value!r}")


def _ways_to_set(setting: Setting) -> str:
    flag = f"{setting.flag}-file" if setting.is_secret else setting.flag
    return f"{flag}, {setting.env}, or {setting.key} in the file"


def _installed_version(service: str) -> str:
    for distribution in (f"stromboli-{service}", "stromboli-runtime"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def _show(text: str) -> NoReturn:
    sys.stdout.write(text)
    raise SystemExit(0)
