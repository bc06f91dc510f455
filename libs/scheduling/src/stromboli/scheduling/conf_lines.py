"""YAML that knows its lines, and problems that are told by them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from stromboli.scheduling.errors import EXPECTED, BadFile

__all__ = ["Lined", "Place", "Problems", "document_of"]


class Lined(dict[Any, Any]):
    """One that knows in which line it begins, and each of its keys."""

    line = 0
    lines: Mapping[str, int] = {}


class _Loader(yaml.SafeLoader):
    """Keeps the lines."""


def _mapping(loader: Any, node: Any) -> Iterator[Lined]:
    found = Lined()
    yield found
    found.line = node.start_mark.line + 1
    found.lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
    found.update(loader.construct_mapping(node))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


class Place(NamedTuple):
    """Where something stands that has arguments."""

    line: int
    arguments: Mapping[str, int]
    """The line of each."""

    def of(self, problem: str) -> int:
        """The line of the argument that the problem names, else of the whole."""
        named = [name for name in self.arguments if name in problem]
        return self.arguments[max(named, key=len)] if named else self.line


@dataclass(slots=True)
class Problems:
    """All that is wrong, told from the first line to the last."""

    file: str = ""
    """Where the lines are counted, if not in what was given."""
    found: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def add(self, line: int, *problems: str) -> None:
        self.found += [(line, problem) for problem in problems]

    def told(self) -> list[str]:
        """All names that would do are listed once: they are many."""
        listed: dict[str, None] = {}
        told: list[str] = []
        for line, problem in sorted(self.found, key=lambda one: one[0]):
            said, _, names = problem.partition(EXPECTED)
            where = f"line {line}{f' of {self.file}' if self.file else ''}: " if line else ""
            told.append(where + (said if names in listed else problem))
            if names:
                listed[names] = None
        return told


def document_of(text: str, problems: Problems) -> Lined:
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        said = ", ".join(part for part in (fault.context, fault.problem) if part)
        problems.add(mark.line + 1 if mark else 0, f"it is not YAML: {said}")
        raise BadFile(problems.told()) from fault
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        raise BadFile([f"it is not YAML: {fault}"]) from fault
    if not isinstance(document, Lined):
        raise BadFile(["expected a mapping with the keys actions and tiers"])
    return document
