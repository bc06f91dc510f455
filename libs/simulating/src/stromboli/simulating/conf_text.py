"""The scheduler's configuration as people have it: Volcano's file, or the ConfigMap around it."""

from typing import Any, Final

from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.simulating.errors import BadInput, listed
from stromboli.simulating.manifests import Source
from stromboli.simulating.yaml_text import documents

__all__ = ["conf_from"]

_KEY: Final = "volcano-scheduler.conf"
_SUFFIX: Final = ".conf"


def conf_from(source: Source) -> SchedulingConf:
    """Raises BadInput with everything that is wrong with it."""
    maps = [
        document.content
        for document in documents(source.name, source.text)
        if isinstance(document.content, dict) and document.content.get("kind") == "ConfigMap"
    ]
    text = _text_in(source.name, maps) if maps else source.text
    try:
        conf = read_conf(text)
        # A simulation asks nobody: a plugin that would have to is refused here.
        SchedulerCore(conf)
    except BadConfiguration as bad:
        raise BadInput(source.name, listed(bad.problems)) from bad
    return conf


def _text_in(name: str, maps: list[dict[str, Any]]) -> str:
    found: dict[str, str] = {}
    for one in maps:
        data: Any = one.get("data")
        if isinstance(data, dict):
            found |= {str(key): text for key, text in data.items() if isinstance(text, str)}
    if _KEY in found:
        return found[_KEY]
    files = [key for key in found if key.endswith(_SUFFIX)]
    if len(files) == 1:
        return found[files[0]]
    raise BadInput(
        name, f"the ConfigMap has {len(files)} keys that end in {_SUFFIX}, expected {_KEY!r}"
    )
