"""What can be said about how to schedule: actions, tiers of plugins, a few times and names."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.api.wellknown import DEFAULT_QUEUE, SCHEDULER_NAME

__all__ = ["DEFAULT_TIERS", "PluginConf", "SchedulingConf"]


class PluginConf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One plugin of a tier."""

    name: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])


DEFAULT_TIERS: Final = (
    (PluginConf("priority"), PluginConf("gang")),
    (PluginConf("overcommit"), PluginConf("predicates"), PluginConf("nodeorder")),
)


class SchedulingConf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scheduler's configuration."""

    actions: tuple[str, ...] = ("enqueue", "allocate", "backfill")
    tiers: tuple[tuple[PluginConf, ...], ...] = DEFAULT_TIERS
    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)
    """Pods with one of these as `schedulerName` are placed; all others only take room."""
    default_queue: str = DEFAULT_QUEUE
    gang_bind_timeout_s: float = 30.0
    """A gang that is bound only in part for longer than this is evicted whole."""
