"""YAML and JSON with the line of every value, so that a problem can be pointed at.

Scalars are what YAML says they are, but for timestamps, which stay text: RFC 3339 is read where
a moment is expected. JSON is read as the part of YAML that it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

__all__ = ["Located", "NotYaml", "located", "plain"]

_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
_LOADER: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST: Final = 64


class NotYaml(ValueError):
    """The text can't be read at all."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line


Content: TypeAlias = "str | int | float | bool | Sequence[Located] | Mapping[str, Located] | None"


class Located:
    """A value and the line it stands on, counted from one."""

    __slots__ = ("line", "value")

    def __init__(self, value: Content, line: int) -> None:
        self.value = value
        self.line = line

    @property
    def mapping(self) -> Mapping[str, "Located"] | None:
        """None if it is something else."""
        return self.value if isinstance(self.value, Mapping) else None

    @property
    def sequence(self) -> Sequence["Located"] | None:
        """None if it is something else."""
        value = self.value
        return value if isinstance(value, Sequence) and not isinstance(value, str) else None


def located(text: str, *, is_json: bool = False) -> Located | None:
    """The one document in `text`, None if there is nothing in it. Raises NotYaml."""
    # A tab inside a JSON text can't be part of a string, and YAML does not indent with it.
    loader = _LOADER(text.replace("\t", " ") if is_json else text)
    try:
        node: Node | None = loader.get_single_node()
        return _Reader(loader).read(node, 0) if node is not None else None
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        problem = getattr(fault, "problem", None) or str(fault)
        raise NotYaml(mark.line + 1 if mark else 1, f"it is not YAML: {problem}") from fault
    finally:
        loader.dispose()


class _Reader:
    """Each node is read once, however often an alias names it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._read: dict[int, Located] = {}

    def read(self, node: Node, depth: int) -> Located:
        known = self._read.get(id(node))
        if known is None:
            line = node.start_mark.line + 1
            if depth > _DEEPEST:
                raise NotYaml(line, f"it is nested more than {_DEEPEST} deep")
            known = self._read[id(node)] = Located(self._content(node, depth, line), line)
        return known

    def _content(self, node: Node, depth: int, line: int) -> Content:
        match node:
            case ScalarNode():
                return self._scalar(node, line)
            case SequenceNode():
                return [self.read(each, depth + 1) for each in node.value]
            case MappingNode():
                return dict(self._members(node, depth))
            case _:
                raise NotYaml(line, "expected a value, a list or a mapping")

    def _scalar(self, node: ScalarNode, line: int) -> Content:
        if node.tag not in _TAGS:
            return str(node.value)
        try:
            return self._loader.construct_object(node)
        except ValueError as fault:
            raise NotYaml(line, f"{node.value!r} can not be read: {fault}") from fault

    def _members(self, node: MappingNode, depth: int) -> Iterator[tuple[str, Located]]:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                raise NotYaml(line, "expected a text as key")
            if key.value in seen:
                raise NotYaml(line, f"the key {key.value!r} is there twice")
            seen.add(key.value)
        # What is merged in (`<<`) stands before what the mapping says itself, which then wins.
        self._loader.flatten_mapping(node)
        for key, value in node.value:
            yield str(key.value), self.read(value, depth + 1)


def plain(where: Located) -> Any:
    """The value without its lines."""
    if (members := where.mapping) is not None:
        return {key: plain(value) for key, value in members.items()}
    if (items := where.sequence) is not None:
        return [plain(item) for item in items]
    return where.value
