"""The JSONPath that printer columns use: fields, indices, `[*]` and `[?(@.a=="b")]`.

A path that cannot be read finds nothing: a definition's column stays empty, and the objects are
still shown.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

__all__ = ["JsonPath", "json_path"]

_Step: TypeAlias = Callable[[Any], Iterable[Any]]
JsonPath: TypeAlias = Callable[[Any], list[Any]]
"""Everything a path finds in a value, in order."""

_TOKEN: Final = re.compile(
    r"""
      \.?(?P<field>(?:[^.\[\]\\*]|\\.)+)
    | \[(?P<quote>['"])(?P<quoted>(?:(?!(?P=quote)).)*)(?P=quote)\]
    | \[(?P<index>-?\d+)\]
    | (?P<all>\.\*|\[\*\])
    | \[(?P<slice>-?\d*:-?\d*)\]
    | \[\?\(\s*@\.(?P<key>[^=!<>\s]+)\s*(?P<operator>==|!=)\s*
        (?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]
    """,
    re.VERBOSE,
)


def json_path(text: str) -> JsonPath:
    """The path as a function; one that finds nothing if the text is not a path we know."""
    body = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[_Step] = []
    position = 0
    while position < len(body):
        token = _TOKEN.match(body, position)
        if token is None:
            return lambda _value: []
        steps.append(_step(token))
        position = token.end()

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [item for one in found for item in step(one)]
        return found

    return find


def _step(token: re.Match[str]) -> _Step:
    if token["field"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", token["field"]))
    if token["quoted"] is not None:
        return _field(token["quoted"])
    if token["index"] is not None:
        place = int(token["index"])
        return _items(lambda items: items[place:][:1] if place >= -len(items) else [])
    if token["slice"] is not None:
        start, _, end = token["slice"].partition(":")
        bounds = slice(int(start) if start else None, int(end) if end else None)
        return _items(lambda items: items[bounds])
    if token["all"] is not None:
        return lambda value: value.values() if isinstance(value, dict) else _listed(value)
    return _filter(token["key"], token["operator"], token["value"].strip("\"'"))


def _field(name: str) -> _Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _items(choose: Callable[[list[Any]], list[Any]]) -> _Step:
    return lambda value: choose(value) if isinstance(value, list) else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _filter(key: str, operator: str, wanted: str) -> _Step:
    inner = json_path(f".{key}")

    def keeps(item: Any) -> bool:
        found = inner(item)
        equal = bool(found) and _text(found[0]) == wanted
        return equal if operator == "==" else not equal

    return _items(lambda items: [item for item in items if keeps(item)])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
