"""What a job's status remembers, so that no trigger is lost or answered twice.

A trigger is a difference between what is there and what the status records as handled. Most
need no record, because the pod they come from carries the job's version and every full kill
raises it. The rest is kept in `status.controlledResources`, a map from text to text that
Volcano has for such things, under keys of our own:

- `stromboli/pods-<task>`: the indexes of the pods of this version that were seen and have not
  ended by our doing; one that is in it and not in the view was evicted;
- `stromboli/succeeded-<task>`, `stromboli/failed-<task>`: the indexes of the pods that ended by
  themselves; one of them that is gone was cleared away and has not to be run again;
- `stromboli/restarted-<task>`: the indexes of the pods that the present retry has restarted;
- `stromboli/renewed-<task>`: for indexes that a restart of a part has ended, the retry from which
  on a pod is a new one; one of an earlier retry ends by our doing, however long that takes;
- `stromboli/since-<event>-<task>`: when something happened that a policy answers only after
  its timeout, in seconds by index;
- `stromboli/generation`: the newest generation of the spec that a policy was asked about;
- `stromboli/told-<reason>`: which warning was told last, so that none is told over and over;
- `stromboli/command`: uid of the last Command carried out; it is written together with the
  command's effect, so a command that is still there with this uid needs only be deleted;
- `stromboli/kept`: which pods the last full kill spared, see `phases.Keep`;
- `stromboli/ended-podgroup`: uid of the PodGroup that the last full kill ended;
- `stromboli/made-<kind>-<name>`: uid of an object that was made for a plugin;
- `stromboli/content-<kind>-<name>`: a digest of what was put into it;
- `stromboli/equipped`: for which run of the job, and when, its plugins' objects were asked for.

Volcano's own `plugin-<name>` says that all objects of a plugin are made, `volume-pvc-<name>`
that the job mounts a claim.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from stromboli.api.numerals import as_number
from stromboli.lifecycle.phases import Keep
from stromboli.lifecycle.roster import as_indexes, as_numbers, as_text, numbers_as_text

__all__ = ["Delayed", "Place", "Records"]

Place = tuple[str, str]
"""(kind, name)"""
Delayed = dict[tuple[str, str], dict[int, int]]
"""(event, task) → index → since when, in seconds."""

_OURS: Final = "stromboli/"
_PODS: Final = "stromboli/pods-"
_RENEWED: Final = "stromboli/renewed-"
_RESTARTED: Final = "stromboli/restarted-"
_SUCCEEDED: Final = "stromboli/succeeded-"
_FAILED: Final = "stromboli/failed-"
_SINCE: Final = "stromboli/since-"
_TOLD: Final = "stromboli/told-"
_MADE: Final = "stromboli/made-"
_CONTENT: Final = "stromboli/content-"
_COMMAND: Final = "stromboli/command"
_GENERATION: Final = "stromboli/generation"
_KEPT: Final = "stromboli/kept"
_EQUIPPED: Final = "stromboli/equipped"
_ENDED_GROUP: Final = "stromboli/ended-podgroup"
_PLUGIN: Final = "plugin-"
_CLAIM: Final = "volume-pvc-"
_KEEPS: Final[Mapping[str, Keep]] = {keep.value: keep for keep in Keep}


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """`status.controlledResources`, read."""

    pods: dict[str, frozenset[int]] = msgspec.field(default_factory=dict[str, frozenset[int]])
    renewed: dict[str, dict[int, int]] = msgspec.field(default_factory=dict[str, dict[int, int]])
    """Task → index → the first retry whose pod is a new one."""
    restarted: dict[str, frozenset[int]] = msgspec.field(default_factory=dict[str, frozenset[int]])
    succeeded: dict[str, frozenset[int]] = msgspec.field(default_factory=dict[str, frozenset[int]])
    failed: dict[str, frozenset[int]] = msgspec.field(default_factory=dict[str, frozenset[int]])
    delayed: Delayed = msgspec.field(default_factory=Delayed)
    generation: int = 0
    told: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    command: str = ""
    kept: Keep = Keep.NOTHING
    ended_group: str = ""
    made: dict[Place, str] = msgspec.field(default_factory=dict[Place, str])
    """→ uid."""
    content: dict[Place, str] = msgspec.field(default_factory=dict[Place, str])
    equipped: str = ""
    plugins: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    others: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What somebody else wrote; it stays."""

    @classmethod
    def read(cls, resources: Mapping[str, str]) -> Self:
        return cls(
            pods=_indexes_under(_PODS, resources),
            restarted=_indexes_under(_RESTARTED, resources),
            succeeded=_indexes_under(_SUCCEEDED, resources),
            failed=_indexes_under(_FAILED, resources),
            renewed={
                task: as_numbers(value) for task, value in _under(_RENEWED, resources).items()
            },
            delayed={
                _divided(key): as_numbers(value) for key, value in _under(_SINCE, resources).items()
            },
            generation=as_number(resources.get(_GENERATION, "")) or 0,
            told=_under(_TOLD, resources),
            command=resources.get(_COMMAND, ""),
            kept=_KEEPS.get(resources.get(_KEPT, ""), Keep.NOTHING),
            ended_group=resources.get(_ENDED_GROUP, ""),
            made={_divided(key): value for key, value in _under(_MADE, resources).items()},
            content={_divided(key): value for key, value in _under(_CONTENT, resources).items()},
            equipped=resources.get(_EQUIPPED, ""),
            plugins=frozenset(_under(_PLUGIN, resources)),
            claims=frozenset(_under(_CLAIM, resources)),
            others={
                key: value
                for key, value in resources.items()
                if not key.startswith((_OURS, _PLUGIN, _CLAIM))
            },
        )

    def ended(self, task: str) -> frozenset[int]:
        """The indexes of the pods of a task that are known to have ended by themselves."""
        none: frozenset[int] = frozenset()
        return self.succeeded.get(task, none) | self.failed.get(task, none)

    def written(self) -> dict[str, str]:
        """As it goes into the status."""
        resources = {
            **self.others,
            **{f"{_PLUGIN}{name}": name for name in sorted(self.plugins)},
            **{f"{_CLAIM}{name}": name for name in sorted(self.claims)},
            **{f"{_MADE}{kind}-{name}": uid for (kind, name), uid in sorted(self.made.items())},
            **{f"{_CONTENT}{kind}-{name}": it for (kind, name), it in sorted(self.content.items())},
            **_as_texts(_PODS, self.pods),
            **_as_texts(_RESTARTED, self.restarted),
            **_as_texts(_SUCCEEDED, self.succeeded),
            **_as_texts(_FAILED, self.failed),
            **{
                f"{_RENEWED}{task}": numbers_as_text(retries)
                for task, retries in sorted(self.renewed.items())
            },
            **{
                f"{_SINCE}{event}-{task}": numbers_as_text(since)
                for (event, task), since in sorted(self.delayed.items())
            },
            **{f"{_TOLD}{reason}": it for reason, it in sorted(self.told.items())},
            _GENERATION: str(self.generation) if self.generation else "",
            _COMMAND: self.command,
            _KEPT: self.kept if self.kept is not Keep.NOTHING else "",
            _ENDED_GROUP: self.ended_group,
            _EQUIPPED: self.equipped,
        }
        return {key: value for key, value in resources.items() if value}


def _indexes_under(prefix: str, resources: Mapping[str, str]) -> dict[str, frozenset[int]]:
    return {task: as_indexes(value) for task, value in _under(prefix, resources).items()}


def _as_texts(prefix: str, tasks: Mapping[str, frozenset[int]]) -> dict[str, str]:
    return {f"{prefix}{task}": as_text(indexes) for task, indexes in sorted(tasks.items())}


def _under(prefix: str, resources: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in resources.items()
        if key.startswith(prefix)
    }


def _divided(key: str) -> tuple[str, str]:
    """Kinds and events have no dash in them, names do."""
    first, _, rest = key.partition("-")
    return first, rest
