"""What a job's status remembers, so that no trigger is lost or answered twice.

A trigger is a difference between what is there and what the status records as handled. Most
need no record, because the pod they come from carries the job's version and every full kill
raises it. The rest is kept in `status.controlledResources`, a map from text to text that
Volcano has for such things, under keys of our own:

- `stromboli/pods-<task>`: the indexes of the pods of this version that were seen and have not
  ended by our doing; one that is in it and not in the view was evicted;
- `stromboli/command`: uid of the last Command carried out; it is written together with the
  command's effect, so a command that is still there with this uid needs only be deleted;
- `stromboli/kept`: which pods the last full kill spared, see `phases.Keep`;
- `stromboli/ended-podgroup`: uid of the PodGroup that the last full kill ended;
- `stromboli/made-<kind>-<name>`: uid of an object that was made for a plugin.

Volcano's own `plugin-<name>` says that all objects of a plugin are made.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from stromboli.lifecycle.phases import Keep
from stromboli.lifecycle.roster import as_indexes, as_text

__all__ = ["Records"]

_OURS: Final = "stromboli/"
_PODS: Final = "stromboli/pods-"
_MADE: Final = "stromboli/made-"
_COMMAND: Final = "stromboli/command"
_KEPT: Final = "stromboli/kept"
_ENDED_GROUP: Final = "stromboli/ended-podgroup"
_PLUGIN: Final = "plugin-"


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """`status.controlledResources`, read."""

    pods: dict[str, frozenset[int]] = msgspec.field(default_factory=dict[str, frozenset[int]])
    command: str = ""
    kept: Keep = Keep.NOTHING
    ended_group: str = ""
    made: dict[tuple[str, str], str] = msgspec.field(default_factory=dict[tuple[str, str], str])
    """(kind, name) → uid."""
    plugins: frozenset[str] = frozenset()
    others: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What somebody else wrote; it stays."""

    @classmethod
    def read(cls, resources: Mapping[str, str]) -> Self:
        pods: dict[str, frozenset[int]] = {}
        made: dict[tuple[str, str], str] = {}
        plugins: set[str] = set()
        others: dict[str, str] = {}
        for key, value in resources.items():
            if key.startswith(_PODS):
                pods[key.removeprefix(_PODS)] = as_indexes(value)
            elif key.startswith(_MADE):
                kind, _, name = key.removeprefix(_MADE).partition("-")
                made[kind, name] = value
            elif key.startswith(_PLUGIN):
                plugins.add(key.removeprefix(_PLUGIN))
            elif not key.startswith(_OURS):
                others[key] = value
        return cls(
            pods=pods,
            command=resources.get(_COMMAND, ""),
            kept=Keep.FINISHED if resources.get(_KEPT) == Keep.FINISHED else Keep.NOTHING,
            ended_group=resources.get(_ENDED_GROUP, ""),
            made=made,
            plugins=frozenset(plugins),
            others=others,
        )

    def written(self) -> dict[str, str]:
        """As it goes into the status."""
        resources = {
            **self.others,
            **{f"{_PLUGIN}{name}": name for name in sorted(self.plugins)},
            **{f"{_MADE}{kind}-{name}": uid for (kind, name), uid in sorted(self.made.items())},
            **{f"{_PODS}{task}": as_text(known) for task, known in sorted(self.pods.items())},
        }
        if self.command:
            resources[_COMMAND] = self.command
        if self.kept is not Keep.NOTHING:
            resources[_KEPT] = self.kept
        if self.ended_group:
            resources[_ENDED_GROUP] = self.ended_group
        return {key: value for key, value in resources.items() if value}
