"""Read Volcano's scheduler configuration file, as it is.

Volcano passes over what it does not know: a misspelt plugin is logged and left out, a wrong
argument keeps its default. Here that is an error with a suggestion, and every problem of a file
is told at once, with its line. Whether the named actions and plugins exist, and take these
arguments, is tried by building them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from stromboli.api.durations import parse_duration
from stromboli.api.errors import DurationError
from stromboli.scheduling.actions.registry import action
from stromboli.scheduling.conf import (
    FLAG_NAMES,
    HIERARCHY_FLAG,
    MetricsConf,
    PluginConf,
    SchedulingConf,
)
from stromboli.scheduling.conf_lines import Lined, Place, Problems, document_of
from stromboli.scheduling.conf_text import conf_text
from stromboli.scheduling.errors import BadConfiguration, BadFile
from stromboli.scheduling.plugins.registry import build

__all__ = [
    "DEFAULT_CONF_FILE",
    "place_of_arguments",
    "place_of_configuration",
    "read_conf",
    "read_conf_with",
]

_KEYS: Final = ("actions", "tiers", "configurations", "metrics")
_PLUGIN_KEYS: Final = ("name", "arguments", *FLAG_NAMES)
_CONFIGURATION_KEYS: Final = ("name", "arguments")
_MOST_CHARACTERS: Final = 1 << 20

DEFAULT_CONF_FILE: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""What Volcano's chart installs."""


def read_conf(text: str) -> SchedulingConf:
    """Raises BadFile."""
    return read_conf_with(SchedulingConf(), text)


def read_conf_with(others: SchedulingConf, text: str) -> SchedulingConf:
    """The file's actions and plugins, together with what the file has no say in.

    The file may also be the ConfigMap that has them.
    """
    if len(text) > _MOST_CHARACTERS:
        raise BadFile([f"it has {len(text)} characters, expected at most {_MOST_CHARACTERS}"])
    text, key = conf_text(text)
    problems = Problems(key)
    document = document_of(text, problems)
    _unknown_keys(document, _KEYS, "the key", problems)
    actions = _actions(document, problems)
    tiers = _tiers(document, problems)
    arguments = _configurations(document, problems)
    for name in dict.fromkeys((*actions, *arguments)):
        made_of = arguments.get(name, {})
        at = place_of_configuration(document, name)
        _try(lambda n=name, a=made_of: action(n, a), at, problems)
    metrics = _metrics(document, problems)
    if problems.found:
        raise BadFile(problems.told())
    return msgspec.structs.replace(
        others,
        actions=tuple(actions),
        tiers=tiers,
        action_arguments=arguments,
        metrics=metrics,
    )


def _metrics(document: Lined, problems: Problems) -> MetricsConf | None:
    given = document.get("metrics")
    if given is None:
        return None
    try:
        # Volcano reads them all as text.
        metrics = msgspec.convert(given, MetricsConf, strict=False)
        parse_duration(metrics.interval)
    except (msgspec.ValidationError, DurationError) as fault:
        problems.add(
            document.lines["metrics"],
            f"metrics: {fault}; expected type prometheus, an address, an interval",
        )
        return None
    return metrics


def _actions(document: Lined, problems: Problems) -> list[str]:
    given = document.get("actions")
    if not isinstance(given, str) or not given.strip():
        problems.add(
            document.lines.get("actions", 0),
            "actions: expected names of actions in one text, such as 'allocate'",
        )
        return []
    return [name.strip() for name in given.split(",") if name.strip()]


def _tiers(document: Lined, problems: Problems) -> tuple[tuple[PluginConf, ...], ...]:
    given, line = document.get("tiers"), document.lines.get("tiers", 0)
    if not isinstance(given, list) or not given:
        problems.add(line, "tiers: expected a list of tiers, each with a list of plugins")
        return ()
    tiers: list[tuple[PluginConf, ...]] = []
    places: dict[str, str] = {}
    for number, tier in enumerate(given, start=1):
        at = _line(tier, line)
        listed: Any = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(listed, list):
            problems.add(at, f"tier {number}: expected a list of plugins under 'plugins'")
            continue
        where = f"tier {number}"
        read: list[PluginConf] = []
        for one in listed:
            plugin = _plugin(one, where, _line(one, at), problems)
            if plugin is None:
                continue
            read.append(plugin)
            if plugin.name in places:
                problems.add(_line(one, at), _twice(plugin.name, places[plugin.name], where))
            places.setdefault(plugin.name, where)
        _no_conflict(read, at, problems)
        tiers.append(tuple(read))
    return tuple(tiers)


def _twice(plugin: str, before: str, now: str) -> str:
    """Volcano calls what is named last in both places, and lets it count every pod twice."""
    where = f"twice in {now}" if before == now else f"in {before} and in {now}"
    return f"the plugin {plugin!r} stands {where}, expected once"


def _line(given: object, otherwise: int) -> int:
    return given.line if isinstance(given, Lined) else otherwise


def _plugin(given: object, where: str, line: int, problems: Problems) -> PluginConf | None:
    if not isinstance(given, Lined) or not isinstance(given.get("name"), str):
        problems.add(line, f"{where}: expected a plugin with a name, found {given!r}")
        return None
    name: str = given["name"]
    _unknown_keys(given, _PLUGIN_KEYS, f"the flag of plugin {name}", problems)
    flags: dict[str, bool] = {}
    for flag in FLAG_NAMES:
        value = given.get(flag)
        if isinstance(value, bool):
            flags[flag] = value
        elif value is not None:
            said = f"plugin {name}: {flag} is {value!r}, expected true or false"
            problems.add(given.lines[flag], said)
    plugin = PluginConf(name, _arguments(given, f"plugin {name}", problems), flags)
    _try(lambda: build(plugin), place_of_arguments(given, line), problems)
    return plugin


def _configurations(document: Lined, problems: Problems) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    given, line = document.get("configurations"), document.lines.get("configurations", 0)
    if given is None:
        return found
    if not isinstance(given, list):
        problems.add(line, "configurations: expected a list with a name and arguments each")
        return found
    for one in given:
        at = _line(one, line)
        if not isinstance(one, Lined) or not isinstance(one.get("name"), str):
            problems.add(at, f"configurations: expected the name of an action, found {one!r}")
            continue
        name: str = one["name"]
        _unknown_keys(one, _CONFIGURATION_KEYS, f"the key of configuration {name}", problems)
        found[name] = _arguments(one, f"configuration {name}", problems)
    return found


def _arguments(given: Lined, where: str, problems: Problems) -> dict[str, Any]:
    arguments: object = given.get("arguments") or {}
    if not isinstance(arguments, dict):
        said = f"{where}: arguments are {arguments!r}, expected a mapping"
        problems.add(given.lines["arguments"], said)
        return {}
    return {str(key): value for key, value in arguments.items()}


def _unknown_keys(given: Lined, known: tuple[str, ...], what: str, problems: Problems) -> None:
    for key in given:
        if key not in known:
            line = given.lines.get(str(key), given.line)
            problems.add(line, str(BadConfiguration(what, str(key), known)))


def _try(made: Callable[[], object], at: Place, problems: Problems) -> None:
    try:
        made()
    except BadConfiguration as bad:
        for problem in bad.problems:
            problems.add(at.of(problem), problem)


def place_of_arguments(given: Lined, line: int) -> Place:
    """Of a plugin, or of the configuration of an action."""
    arguments: object = given.get("arguments")
    return Place(line, arguments.lines if isinstance(arguments, Lined) else {})


def place_of_configuration(document: Lined, name: str) -> Place:
    """Of an action: where it is configured, else where it is named."""
    given: object = document.get("configurations")
    for one in given if isinstance(given, list) else ():
        if isinstance(one, Lined) and one.get("name") == name:
            return place_of_arguments(one, one.line)
    return Place(document.lines.get("actions", 0), {})


def _no_conflict(tier: list[PluginConf], line: int, problems: Problems) -> None:
    drf = any(p.name == "drf" and p.is_on(HIERARCHY_FLAG) for p in tier)
    if drf and any(plugin.name == "proportion" for plugin in tier):
        problems.add(line, "proportion and drf with hierarchy enabled conflicts")
