"""What settings a service has, read from the Struct that declares them.

The Struct is the only declaration: names, types, bounds, defaults and help texts come
from it, and flags, environment variables and file keys are derived. A nested Struct is a
group of settings. A setting without a description is refused here, at the first start,
because `--help` would have nothing to say about it.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from stromboli.runtime.redaction import Secret
from stromboli.runtime.units import Duration, Size

__all__ = ["RESERVED", "Group", "Kind", "Setting", "env_prefix", "schema_of"]

RESERVED: Final = ("config", "help", "version", "print_config")
"""Flags that every service has; no setting may take their names."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a type is written by people: a placeholder, and what an error says was expected."""

    placeholder: str
    expected: str
    is_list: bool = False
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that can be set."""

    path: tuple[str, ...]
    type: Any
    kind: Kind
    description: str
    default: Any
    env: str
    is_secret: bool
    is_switch: bool

    @property
    def key(self) -> str:
        """As in a file, nesting shown by dots."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def is_required(self) -> bool:
        return self.default is msgspec.NODEFAULT


@dataclass(frozen=True, slots=True)
class Group:
    """A Struct of settings; the outermost has the path ()."""

    path: tuple[str, ...]
    type: type[msgspec.Struct]
    members: tuple["Setting | Group", ...]
    is_optional: bool = False

    def settings(self) -> Iterator[Setting]:
        for member in self.members:
            if isinstance(member, Group):
                yield from member.settings()
            else:
                yield member

    def groups(self) -> Iterator["Group"]:
        yield self
        for member in self.members:
            if isinstance(member, Group):
                yield from member.groups()

    @property
    def doc(self) -> str:
        # An inherited docstring would be msgspec's own.
        return inspect.cleandoc(self.type.__dict__.get("__doc__") or "")


def env_prefix(service: str) -> str:
    return f"STROMBOLI_{service.upper().replace('-', '_')}_"


def schema_of(settings_type: type[msgspec.Struct], *, service: str) -> Group:
    """Read the declaration; a TypeError is a mistake of its author, not of a user."""
    group = _group(settings_type, (), msgspec.NODEFAULT, prefix=env_prefix(service))
    taken: dict[str, str] = {f"--{name.replace('_', '-')}": "reserved" for name in RESERVED}
    for setting in group.settings():
        for flag in _flags_of(setting):
            if flag in taken:
                raise TypeError(
                    f"{settings_type.__name__}.{setting.key}: {flag} is {taken[flag]} already"
                )
            taken[flag] = f"the flag of {setting.key}"
    return group


def _flags_of(setting: Setting) -> list[str]:
    if setting.is_switch:
        return [setting.flag, "--no-" + setting.flag.removeprefix("--")]
    if setting.is_secret:
        return [setting.flag, f"{setting.flag}-file"]
    return [setting.flag]


def _group(
    struct: type[msgspec.Struct], path: tuple[str, ...], instance: Any, *, prefix: str
) -> Group:
    if not struct.__struct_config__.frozen:
        raise TypeError(f"{struct.__name__} holds settings and must be frozen=True")
    members: list[Setting | Group] = []
    for field in msgspec.structs.fields(struct):
        where = (*path, field.name)
        default = _default_of(field, instance)
        bare, optional = _without_none(_bare(field.type))
        if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
            inner = msgspec.NODEFAULT if default is None else default
            group = _group(bare, where, inner, prefix=prefix)
            members.append(replace(group, is_optional=optional and default is None))
            continue
        description = _description(field.type)
        if not description:
            raise TypeError(
                f"{struct.__name__}.{field.name} has no help text; "
                'declare it as Annotated[…, Meta(description="…")]'
            )
        members.append(
            Setting(
                path=where,
                type=field.type,
                kind=_kind(field.type),
                description=description,
                default=default,
                env=prefix + "__".join(where).upper(),
                is_secret=bare is Secret,
                is_switch=bare is bool,
            )
        )
    return Group(path, struct, tuple(members))


def _default_of(field: msgspec.structs.FieldInfo, instance: Any) -> Any:
    if instance is not msgspec.NODEFAULT:
        return getattr(instance, field.name)
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _metas(annotation: Any) -> list[msgspec.Meta]:
    if get_origin(annotation) is not Annotated:
        return []
    inner, *extras = get_args(annotation)
    return [*_metas(inner), *(extra for extra in extras if isinstance(extra, msgspec.Meta))]


def _description(annotation: Any) -> str:
    texts = [meta.description for meta in _metas(annotation) if meta.description]
    return texts[-1] if texts else ""


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in {Union, UnionType}:
        kept = [member for member in get_args(annotation) if member is not NoneType]
        if len(kept) == 1:
            return _bare(kept[0]), True
    return annotation, False


_SIMPLE: Final[dict[Any, Kind]] = {
    bool: Kind("", "true or false"),
    int: Kind("N", "a whole number"),
    float: Kind("X", "a number"),
    str: Kind("TEXT", "a text"),
    Duration: Kind("DURATION", "a duration such as 4s or 300ms"),
    Size: Kind("SIZE", "a size such as 1Mi or 512Ki"),
    Path: Kind("PATH", "a path"),
    Secret: Kind("TEXT", "a text"),
}


def _kind(annotation: Any) -> Kind:
    bare, _ = _without_none(_bare(annotation))
    origin = get_origin(bare)
    if bare in _SIMPLE:
        kind = _SIMPLE[bare]
        return Kind(kind.placeholder, kind.expected + _bounds(annotation))
    if origin is Literal:
        return _choice([str(value) for value in get_args(bare)])
    if isinstance(bare, type) and issubclass(bare, Enum):
        return _choice([str(member.value) for member in bare])
    if origin in {list, tuple, frozenset, set}:
        inner = _kind(get_args(bare)[0])
        if not inner.is_json:
            expected = f"a comma-separated list, each {inner.expected}"
            return Kind(f"{inner.placeholder},…", expected, is_list=True)
    return Kind("JSON", f"JSON for {bare}", is_json=True)


def _choice(values: list[str]) -> Kind:
    return Kind("|".join(values), "one of " + ", ".join(values))


def _bounds(annotation: Any) -> str:
    bounds: list[str] = []
    for meta in _metas(annotation):
        for sign, limit in ((">=", meta.ge), (">", meta.gt), ("<=", meta.le), ("<", meta.lt)):
            if limit is not None:
                bounds.append(f"{sign} {limit}")
        if meta.min_length:
            bounds.append(f"at least {meta.min_length} long")
        if meta.pattern:
            bounds.append(f"matching {meta.pattern}")
    return f" ({', '.join(bounds)})" if bounds else ""
