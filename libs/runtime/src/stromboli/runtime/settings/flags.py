"""The command line as a source of settings.

`--key value`, `--key=value`, `--switch`, `--no-switch`; nothing positional and no
abbreviations, which would change their meaning when a setting is added. A secret can't be
given here, only the path of its file: everybody on the machine can read a command line.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from stromboli.runtime.settings.schema import RESERVED, Group, Setting
from stromboli.runtime.settings.sources import Findings, Given, nearest

__all__ = ["from_flags"]

_ALONE: Final = frozenset(RESERVED) - {"config"}
"""Reserved flags that take no value."""


class _Role(Enum):
    VALUE = auto()
    ON = auto()
    OFF = auto()
    PATH_OF_SECRET = auto()


@dataclass(frozen=True, slots=True)
class _Target:
    setting: Setting
    role: _Role


def from_flags(schema: Group, argv: Sequence[str]) -> Findings:
    """Read all flags; the last one wins if a flag is repeated."""
    targets = _targets(schema)
    secrets = {setting.flag for setting in schema.settings() if setting.is_secret}
    reserved = {f"--{name.replace('_', '-')}": name for name in RESERVED} | {"-h": "help"}
    findings = Findings()
    rest = deque(argv)
    while rest:
        word = rest.popleft()
        flag, equals, attached = word.partition("=")
        value = attached if equals else None
        if not word.startswith("-"):
            findings.problems.append(f"argument {word!r}: only flags (--key value) are expected")
        elif flag in targets:
            _take(targets[flag], flag, value, rest, findings)
        elif flag in secrets:
            findings.problems.append(
                f"flag {flag}: a secret on the command line can be read by others; "
                f"use {flag}-file PATH, or the environment"
            )
        elif reserved.get(flag) in _ALONE:
            findings.reserved[reserved[flag]] = ""
        elif flag in reserved:
            if (config := _value(flag, value, rest, findings)) is not None:
                findings.reserved["config"] = config
        else:
            hint = nearest(flag, [*targets, *reserved])
            findings.problems.append(f"flag {flag}: there is no such flag{hint}")
            if not equals and rest and not rest[0].startswith("-"):
                rest.popleft()  # its value, which would only be a second problem
    return findings


def _targets(schema: Group) -> dict[str, _Target]:
    targets: dict[str, _Target] = {}
    for setting in schema.settings():
        if setting.is_secret:
            targets[f"{setting.flag}-file"] = _Target(setting, _Role.PATH_OF_SECRET)
        elif setting.is_switch:
            targets[setting.flag] = _Target(setting, _Role.ON)
            targets["--no-" + setting.flag.removeprefix("--")] = _Target(setting, _Role.OFF)
        else:
            targets[setting.flag] = _Target(setting, _Role.VALUE)
    return targets


def _take(
    target: _Target, flag: str, attached: str | None, rest: deque[str], findings: Findings
) -> None:
    match target.role:
        case _Role.ON:
            value = "true" if attached is None else attached
        case _Role.OFF if attached is not None:
            findings.problems.append(f"flag {flag}: takes no value, got {attached!r}")
            return
        case _Role.OFF:
            value = "false"
        case _Role.VALUE | _Role.PATH_OF_SECRET:
            value = _value(flag, attached, rest, findings)
    if value is not None:
        is_path = target.role is _Role.PATH_OF_SECRET
        findings.given.append(
            Given(target.setting, value, f"flag {flag}", is_text=True, is_path_of_secret=is_path)
        )


def _value(flag: str, attached: str | None, rest: deque[str], findings: Findings) -> str | None:
    if attached is not None:
        return attached
    if rest and not rest[0].startswith("--"):
        return rest.popleft()
    findings.problems.append(f"flag {flag}: a value must follow")
    return None
