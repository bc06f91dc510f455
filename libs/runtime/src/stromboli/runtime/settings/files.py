"""A YAML or JSON file as a source of settings, with the line of every key.

The file is composed, not just loaded, because an error that names the line is worth the
trouble, and because plain loading would let the second of two equal keys win in silence.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from stromboli.runtime.settings.schema import Group, Setting
from stromboli.runtime.settings.sources import Findings, Given, nearest

__all__ = ["from_file"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value in a file, the line it stands on, and what is inside it."""

    value: Any
    line: int | None
    inside: dict[str, "_Entry"] | None = None


def from_file(schema: Group, path: Path) -> Findings:
    """The values under the Struct's field names."""
    findings = Findings()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        findings.problems.append(f"file {path}: can't be read: {error}")
        return findings
    try:
        if path.suffix == ".json":
            top = _from_plain(msgspec.json.decode(text))
        else:
            top = _Composing(path, findings).read(text)
    except (yaml.YAMLError, msgspec.DecodeError) as error:
        findings.problems.append(f"file {path}: not valid YAML or JSON: {error}")
        return findings
    if top is None:
        return findings
    if top.inside is None:
        findings.problems.append(f"file {path}: expected keys and values, got {top.value!r}")
        return findings
    _walk(schema, top.inside, path, findings)
    return findings


def _walk(group: Group, entries: dict[str, _Entry], path: Path, findings: Findings) -> None:
    targets = {member.path[-1]: member for member in group.members}
    secret_files = {
        f"{member.path[-1]}_file": member
        for member in group.members
        if isinstance(member, Setting) and member.is_secret
    }
    for name, entry in entries.items():
        origin = f"file {path}" + ("" if entry.line is None else f" line {entry.line}")
        key = ".".join((*group.path, name))
        if name in secret_files:
            findings.given.append(
                Given(
                    secret_files[name], entry.value, origin, is_text=False, is_path_of_secret=True
                )
            )
            continue
        match targets.get(name):
            case Setting() as setting:
                findings.given.append(Given(setting, entry.value, origin, is_text=False))
            case Group() as inner:
                if entry.inside is not None:
                    _walk(inner, entry.inside, path, findings)
                elif entry.value is not None:
                    findings.problems.append(
                        f"{key} ({origin}): expected keys and values, got {entry.value!r}"
                    )
            case None:
                hint = nearest(name, [*targets, *secret_files])
                findings.problems.append(f"{key} ({origin}): there is no such setting{hint}")


def _from_plain(value: Any) -> _Entry:
    inside = None
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        inside = {key: _from_plain(inner) for key, inner in items}
    return _Entry(value, None, inside)


class _Composing:
    """Turns YAML nodes into entries; notes keys that are given twice."""

    def __init__(self, path: Path, findings: Findings) -> None:
        self._path = path
        self._findings = findings

    def read(self, text: str) -> _Entry | None:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else self._entry(loader, node)
        finally:
            loader.dispose()

    def _entry(self, loader: yaml.SafeLoader, node: yaml.Node) -> _Entry:
        inside: dict[str, _Entry] | None = None
        if isinstance(node, yaml.MappingNode):
            inside = {}
            for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                key, line = str(key_node.value), _line(key_node)
                if key in inside:
                    self._findings.problems.append(
                        f"{key} (file {self._path} line {line}): given twice, "
                        f"first on line {inside[key].line}"
                    )
                value = self._entry(loader, value_node)
                inside[key] = _Entry(value.value, line, value.inside)
        return _Entry(cast("Any", loader.construct_object(node, deep=True)), _line(node), inside)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
