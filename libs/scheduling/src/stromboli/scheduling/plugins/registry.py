"""The plugins there are: those below, and what other distributions bring along.

A plugin from elsewhere is an entry point of the group `stromboli.scheduler_plugins`: its name is
the plugin's, and it leads to a function that takes the arguments and returns the plugin. It
can't take the name of one of ours.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from stromboli.scheduling.conf import HIERARCHY_FLAG, PluginConf
from stromboli.scheduling.errors import BadConfiguration, BadValue, NotYet
from stromboli.scheduling.panel import Panel, Seat
from stromboli.scheduling.plugins import (
    binpack,
    capacity,
    cdp,
    conformance,
    drf,
    eviction_budget,
    extender,
    gang,
    min_run_time,
    namespacefair,
    network_topology_aware,
    nodegroup,
    nodeorder,
    overcommit,
    ownership,
    pdb,
    predicates,
    priority,
    proportion,
    queuepolicy,
    reservation,
    resource_strategy_fit,
    resourcequota,
    sla,
    tdm,
    usage,
)
from stromboli.scheduling.plugins.api import Build, Plugin

__all__ = ["GROUP", "IN_TREE", "NOT_YET", "build", "build_all", "installed"]

GROUP: Final = "stromboli.scheduler_plugins"

IN_TREE: Final[Mapping[str, Build]] = {
    binpack.NAME: binpack.build,
    capacity.NAME: capacity.build,
    cdp.NAME: cdp.build,
    conformance.NAME: conformance.build,
    drf.NAME: drf.build,
    eviction_budget.NAME: eviction_budget.build,
    extender.NAME: extender.build,
    gang.NAME: gang.build,
    min_run_time.NAME: min_run_time.build,
    namespacefair.NAME: namespacefair.build,
    network_topology_aware.NAME: network_topology_aware.build,
    nodegroup.NAME: nodegroup.build,
    nodeorder.NAME: nodeorder.build,
    overcommit.NAME: overcommit.build,
    ownership.NAME: ownership.build,
    pdb.NAME: pdb.build,
    predicates.NAME: predicates.build,
    priority.NAME: priority.build,
    proportion.NAME: proportion.build,
    queuepolicy.NAME: queuepolicy.build,
    reservation.NAME: reservation.build,
    resource_strategy_fit.NAME: resource_strategy_fit.build,
    resourcequota.NAME: resourcequota.build,
    sla.NAME: sla.build,
    tdm.NAME: tdm.build,
    usage.NAME: usage.build,
}

NOT_YET: Final = frozenset({"deviceshare", "numa-aware", "rescheduling", "task-topology"})
"""Volcano's that we do not have. Another distribution may bring one along."""


@cache
def installed() -> Mapping[str, EntryPoint]:
    """Plugins that other distributions bring along."""
    return {point.name: point for point in entry_points(group=GROUP)}


def build(conf: PluginConf) -> Plugin:
    """Raises BadConfiguration for a plugin or an argument that does not exist."""
    make = IN_TREE.get(conf.name)
    if make is None:
        point = installed().get(conf.name)
        if point is None and conf.name in NOT_YET:
            raise NotYet(conf.name)
        if point is None:
            raise BadConfiguration("the plugin", conf.name, (*IN_TREE, *installed()))
        try:
            make = point.load()
        except (ImportError, AttributeError) as fault:
            what = f"the plugin {conf.name!r}, {point.value!r},"
            raise BadValue(what, str(fault), "something that can be imported") from fault
    arguments = dict(conf.arguments)
    if conf.is_on(HIERARCHY_FLAG):
        arguments[HIERARCHY_FLAG] = True
    return make(arguments)


def build_all(tiers: tuple[tuple[PluginConf, ...], ...]) -> Panel:
    """The whole panel of a configuration."""
    return Panel([[Seat(build(plugin), plugin.off) for plugin in tier] for tier in tiers])
