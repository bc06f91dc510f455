"""Find the configuration in a file as people have it: Volcano's own, or the ConfigMap around it.

Whatever reads a configuration reads both, so that a file that one tool calls good is not refused
by the next.
"""

from typing import Any, Final, NamedTuple

import yaml

from stromboli.api.wellknown import SCHEDULER_CONFIG_KEY
from stromboli.scheduling.errors import BadFile

__all__ = ["ConfText", "conf_text"]

_KIND: Final = "ConfigMap"
_SUFFIX: Final = ".conf"


class ConfText(NamedTuple):
    """The configuration as text."""

    text: str
    key: str = ""
    """Under which it stands in a ConfigMap; empty where there is none around it."""


def conf_text(text: str) -> ConfText:
    """Raises BadFile for a ConfigMap that has no configuration, or several."""
    if _KIND not in text:
        return ConfText(text)
    try:
        documents: list[Any] = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return ConfText(text)  # whoever reads it on says what is wrong, and where
    maps = [one for one in documents if isinstance(one, dict) and one.get("kind") == _KIND]
    return _in_maps(maps) if maps else ConfText(text)


def _in_maps(maps: list[dict[Any, Any]]) -> ConfText:
    found: dict[str, str] = {}
    for one in maps:
        data: Any = one.get("data")
        if isinstance(data, dict):
            found |= {str(key): text for key, text in data.items() if isinstance(text, str)}
    files = [key for key in found if key.endswith(_SUFFIX)]
    key = SCHEDULER_CONFIG_KEY
    if key not in found and len(files) == 1:
        key = files[0]
    if key not in found:
        raise BadFile(
            [f"the ConfigMap has {len(files)} keys that end in {_SUFFIX}, expected {key!r}"]
        )
    return ConfText(found[key], key)
