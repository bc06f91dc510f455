"""What a configuration file can mean, and that hardly anybody can have meant.

Volcano takes it too, or passes over it, so it is no error: a cluster that came with such a file
goes on. But whoever asks whether the file is good is told of it, with its line.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stromboli.scheduling.conf import PluginConf
from stromboli.scheduling.conf_file import (
    place_of_arguments,
    place_of_configuration,
    read_conf,
)
from stromboli.scheduling.conf_lines import Lined, Problems, document_of
from stromboli.scheduling.conf_text import conf_text

__all__ = ["doubts_about"]

_LEAST: Final = {"overcommit-factor": 1}
"""Of most arguments it is 0."""
_SUPERFLUOUS: Final = {"ownership": "room that was freed for a pod is that pod's without it"}
_RIVALS: Final = ("proportion", "capacity")


def doubts_about(text: str) -> list[str]:
    """From the first line to the last. Raises BadFile for a file that can't be used at all."""
    conf = read_conf(text)
    text, key = conf_text(text)
    found = Problems(key)
    document = document_of(text, found)
    line = document.lines["actions"]
    plugins = {plugin.name: plugin for tier in conf.tiers for plugin in tier}
    for doubt in _of_actions(conf.actions):
        found.add(line, doubt)
    if "predicates" not in plugins:
        found.add(
            document.lines["tiers"],
            "without the plugin 'predicates' selectors, taints, ports and volumes do not count",
        )
    for name in conf.action_arguments:
        if name not in conf.actions:
            at = place_of_configuration(document, name)
            found.add(at.line, f"the action {name!r} is configured, and is none of the actions")
    for given, plugin in _with_lines(document, plugins):
        place = place_of_arguments(given, given.line)
        for doubt in _of_plugin(plugin, plugins):
            found.add(place.of(doubt), doubt)
    return found.told()


def _with_lines(
    document: Lined, plugins: Mapping[str, PluginConf]
) -> Iterator[tuple[Lined, PluginConf]]:
    for tier in document["tiers"]:
        for given in tier["plugins"]:
            yield given, plugins[given["name"]]


def _of_actions(actions: tuple[str, ...]) -> Iterator[str]:
    for name, number in Counter(actions).items():
        if number > 1:
            yield f"the action {name!r} stands {number} times, expected once"
    if "allocate" not in actions:
        yield "without the action 'allocate' no pod is bound that asks for anything"


def _of_plugin(plugin: PluginConf, plugins: Mapping[str, PluginConf]) -> Iterator[str]:
    if plugin.name in _SUPERFLUOUS:
        yield f"the plugin {plugin.name!r} changes nothing: {_SUPERFLUOUS[plugin.name]}"
    if plugin.name == _RIVALS[1] and _RIVALS[0] in plugins:
        yield "'proportion' and 'capacity' both say what queues may have; expected one of them"
    for name, number in _numbers("", plugin.arguments):
        least = _LEAST.get(name, 0)
        if number < least:
            said = f"the argument {name!r} of {plugin.name} is {number:g}"
            yield f"{said}, expected nothing below {least}"


def _numbers(path: str, given: Any) -> Iterator[tuple[str, float]]:
    """Arguments are mappings of mappings at most."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from _numbers(path or str(key), value)
    elif isinstance(given, int | float):
        yield path, given
    elif isinstance(given, str):
        try:
            yield path, float(given)
        except ValueError:
            return
