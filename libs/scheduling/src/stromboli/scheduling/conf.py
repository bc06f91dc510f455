"""What can be said about how to schedule: actions, tiers of plugins, a few times and names."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from stromboli.api.wellknown import DEFAULT_QUEUE, SCHEDULER_NAME

__all__ = [
    "DEFAULT_TIERS",
    "FLAG_NAMES",
    "HIERARCHY_FLAG",
    "MetricsConf",
    "PluginConf",
    "SchedulingConf",
]

HIERARCHY_FLAG: Final = "enableHierarchy"
FLAG_NAMES: Final = (
    "enableJobOrder",
    HIERARCHY_FLAG,
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enabledClusterOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobEnqueued",
    "enabledVictim",
    "enableJobStarving",
    "enabledOverused",
    "enabledAllocatable",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)
"""Volcano's spelling. Unset means on, but for the hierarchy and the order of clusters."""

_OFF_UNLESS_SET: Final = frozenset({HIERARCHY_FLAG, "enabledClusterOrder"})


class PluginConf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One plugin of a tier."""

    name: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    flags: Mapping[str, bool] = msgspec.field(default_factory=dict[str, bool])

    def is_on(self, flag: str) -> bool:
        return self.flags.get(flag, flag not in _OFF_UNLESS_SET)

    @property
    def off(self) -> frozenset[str]:
        return frozenset(flag for flag in FLAG_NAMES if not self.is_on(flag))


_NOT_PREEMPTABLE: Final = {"enablePreemptable": False}

DEFAULT_TIERS: Final = (
    (
        PluginConf("priority"),
        PluginConf("gang", flags=_NOT_PREEMPTABLE),
        PluginConf("conformance"),
    ),
    (
        PluginConf("overcommit"),
        PluginConf("drf", flags=_NOT_PREEMPTABLE),
        PluginConf("predicates"),
        PluginConf("proportion"),
        PluginConf("nodeorder"),
        PluginConf("binpack"),
    ),
)
"""What Volcano's chart installs."""


class MetricsConf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the measured load of nodes comes from (`usage`)."""

    type: Literal["prometheus"] = "prometheus"
    address: str
    interval: str = "30s"
    insecure: bool = msgspec.field(default=False, name="tls.insecureSkipVerify")


class SchedulingConf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scheduler's configuration."""

    actions: tuple[str, ...] = ("enqueue", "allocate", "backfill")
    tiers: tuple[tuple[PluginConf, ...], ...] = DEFAULT_TIERS
    action_arguments: Mapping[str, Mapping[str, Any]] = msgspec.field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    """By action."""
    metrics: MetricsConf | None = None
    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)
    """Pods with one of these as `schedulerName` are placed; all others only take room."""
    default_queue: str = DEFAULT_QUEUE
    node_selector: tuple[tuple[str, str], ...] = ()
    """Only nodes with one of these labels are used; all, where none is named."""
    gang_bind_timeout_s: float = 30.0
    """A gang that is bound only in part for longer than this is evicted whole."""
