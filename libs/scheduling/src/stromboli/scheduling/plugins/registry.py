"""The plugins there are. This list is the whole of it."""

from collections.abc import Mapping
from typing import Final

from stromboli.scheduling.conf import PluginConf
from stromboli.scheduling.errors import BadConfiguration
from stromboli.scheduling.plugins import gang, nodeorder, overcommit, predicates, priority
from stromboli.scheduling.plugins.api import Build, Plugin

__all__ = ["IN_TREE", "build"]

IN_TREE: Final[Mapping[str, Build]] = {
    gang.NAME: gang.build,
    nodeorder.NAME: nodeorder.build,
    overcommit.NAME: overcommit.build,
    predicates.NAME: predicates.build,
    priority.NAME: priority.build,
}


def build(conf: PluginConf) -> Plugin:
    """Raises BadConfiguration for a plugin or an argument that does not exist."""
    try:
        make = IN_TREE[conf.name]
    except KeyError:
        raise BadConfiguration("the plugin", conf.name, IN_TREE) from None
    return make(conf.arguments)
