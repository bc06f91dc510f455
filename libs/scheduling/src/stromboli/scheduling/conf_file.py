"""Read Volcano's scheduler configuration file, as it is.

Volcano passes over what it does not know: a misspelt plugin is logged and left out, a wrong
argument keeps its default. Here that is an error with a suggestion, and every problem of a file
is told at once. Whether the named actions and plugins exist, and take these arguments, is tried
by building them.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

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
from stromboli.scheduling.errors import BadConfiguration, BadFile
from stromboli.scheduling.plugins.registry import build

__all__ = ["DEFAULT_CONF_FILE", "read_conf", "read_conf_with"]

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
    """The file's actions and plugins, together with what the file has no say in."""
    problems: list[str] = []
    document = _document(text)
    _unknown_keys(document, _KEYS, "the key", problems)
    actions = _actions(document.get("actions"), problems)
    tiers = _tiers(document.get("tiers"), problems)
    arguments = _configurations(document.get("configurations"), actions, problems)
    for name in actions:
        _try(lambda name=name: action(name, arguments.get(name, {})), problems)
    for tier in tiers:
        for plugin in tier:
            _try(lambda plugin=plugin: build(plugin), problems)
    problems += _conflicts(tiers)
    metrics = _metrics(document.get("metrics"), problems)
    if problems:
        raise BadFile(problems)
    return msgspec.structs.replace(
        others,
        actions=tuple(actions),
        tiers=tiers,
        action_arguments=arguments,
        metrics=metrics,
    )


def _metrics(given: object, problems: list[str]) -> MetricsConf | None:
    if given is None:
        return None
    try:
        # Volcano reads them all as text.
        metrics = msgspec.convert(given, MetricsConf, strict=False)
        parse_duration(metrics.interval)
    except (msgspec.ValidationError, DurationError) as fault:
        problems.append(f"metrics: {fault}; expected type prometheus, an address, an interval")
        return None
    return metrics


def _document(text: str) -> Mapping[str, Any]:
    if len(text) > _MOST_CHARACTERS:
        raise BadFile([f"it has {len(text)} characters, expected at most {_MOST_CHARACTERS}"])
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as fault:
        raise BadFile([f"it is not YAML: {fault}"]) from fault
    if not isinstance(document, dict):
        raise BadFile(["expected a mapping with the keys actions and tiers"])
    return {str(key): value for key, value in document.items()}


def _actions(given: object, problems: list[str]) -> list[str]:
    if not isinstance(given, str) or not given.strip():
        problems.append("actions: expected names of actions in one text, such as 'allocate'")
        return []
    return [name.strip() for name in given.split(",") if name.strip()]


def _tiers(given: object, problems: list[str]) -> tuple[tuple[PluginConf, ...], ...]:
    if not isinstance(given, list):
        problems.append("tiers: expected a list of tiers, each with a list of plugins")
        return ()
    tiers: list[tuple[PluginConf, ...]] = []
    for number, tier in enumerate(given, start=1):
        listed: Any = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(listed, list):
            problems.append(f"tier {number}: expected a list of plugins under 'plugins'")
            continue
        read = [_plugin(one, f"tier {number}", problems) for one in listed]
        tiers.append(tuple(plugin for plugin in read if plugin is not None))
    return tuple(tiers)


def _plugin(given: object, where: str, problems: list[str]) -> PluginConf | None:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        problems.append(f"{where}: expected a plugin with a name, found {given!r}")
        return None
    name: str = given["name"]
    _unknown_keys(given, _PLUGIN_KEYS, f"the flag of plugin {name}", problems)
    flags: dict[str, bool] = {}
    for flag in FLAG_NAMES:
        value = given.get(flag)
        if isinstance(value, bool):
            flags[flag] = value
        elif value is not None:
            problems.append(f"plugin {name}: {flag} is {value!r}, expected true or false")
    return PluginConf(name, _arguments(given, f"plugin {name}", problems), flags)


def _configurations(
    given: object, actions: list[str], problems: list[str]
) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    if given is None:
        return found
    if not isinstance(given, list):
        problems.append("configurations: expected a list with a name and arguments each")
        return found
    for one in given:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            problems.append(f"configurations: expected the name of an action, found {one!r}")
            continue
        name: str = one["name"]
        _unknown_keys(one, _CONFIGURATION_KEYS, f"the key of configuration {name}", problems)
        found[name] = _arguments(one, f"configuration {name}", problems)
        if name not in actions:
            _try(lambda name=name: action(name, found[name]), problems)
    return found


def _arguments(given: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, Any]:
    arguments: object = given.get("arguments") or {}
    if not isinstance(arguments, dict):
        problems.append(f"{where}: arguments are {arguments!r}, expected a mapping")
        return {}
    return {str(key): value for key, value in arguments.items()}


def _unknown_keys(
    given: Mapping[str, Any], known: tuple[str, ...], what: str, problems: list[str]
) -> None:
    problems += [str(BadConfiguration(what, str(key), known)) for key in given if key not in known]


def _try(made: Any, problems: list[str]) -> None:
    try:
        made()
    except BadConfiguration as bad:
        problems += bad.problems


def _conflicts(tiers: tuple[tuple[PluginConf, ...], ...]) -> list[str]:
    for tier in tiers:
        drf = any(p.name == "drf" and p.is_on(HIERARCHY_FLAG) for p in tier)
        if drf and any(plugin.name == "proportion" for plugin in tier):
            return ["proportion and drf with hierarchy enabled conflicts"]
    return []
