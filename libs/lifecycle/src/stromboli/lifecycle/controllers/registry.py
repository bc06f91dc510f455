"""The list of controllers, and which of them a process runs.

`--controllers` is Volcano's: names separated by commas, `*` for all, `-name` for all but that
one. Names that Volcano has and we do not (yet) are accepted where they switch something off.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec

from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.contracts.subjects import CLUSTER
from stromboli.lifecycle.controllers.cronjob import CronJobController
from stromboli.lifecycle.controllers.garbage import GarbageController
from stromboli.lifecycle.controllers.job import JobController
from stromboli.lifecycle.controllers.jobflow import JobFlowController, JobTemplateController
from stromboli.lifecycle.controllers.podgroup import PodGroupController
from stromboli.lifecycle.controllers.protocol import Controller
from stromboli.lifecycle.controllers.queue import QueueController
from stromboli.lifecycle.errors import NoControllers, UnknownController

__all__ = [
    "CONTROLLERS",
    "Options",
    "all_controllers",
    "chosen",
    "kinds_read_by",
    "made",
    "shard_of",
]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said about how they decide."""

    scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME})
    """Pods of these get a gang."""
    inherit_owner_annotations: bool = True

    @classmethod
    def of(cls, *, scheduler_names: str, inherit_owner_annotations: bool) -> Self:
        """From names separated by commas."""
        names = frozenset(name for part in scheduler_names.split(",") if (name := part.strip()))
        return cls(
            scheduler_names=names or frozenset({SCHEDULER_NAME}),
            inherit_owner_annotations=inherit_owner_annotations,
        )


def _make_pod_group_controller(options: Options) -> Controller:
    return PodGroupController(options.scheduler_names, inherits=options.inherit_owner_annotations)


CONTROLLERS: Final[Mapping[str, Callable[[Options], Controller]]] = {
    "job-controller": lambda _: JobController(),
    "queue-controller": lambda _: QueueController(),
    "pg-controller": _make_pod_group_controller,
    "gc-controller": lambda _: GarbageController(),
    "cronjob-controller": lambda _: CronJobController(),
    "jobflow-controller": lambda _: JobFlowController(),
    "jobtemplate-controller": lambda _: JobTemplateController(),
}

_ELSEWHERE: Final = frozenset(
    {"colocation-config-controller", "hyperNode-controller", "sharding-controller"}
)
_ALL: Final = "*"


def chosen(text: str) -> tuple[str, ...]:
    """The names that `--controllers` stands for, in the order of the list."""
    words = [word for part in text.split(",") if (word := part.strip())]
    added = {word for word in words if word != _ALL and not word.startswith("-")}
    removed = {word.removeprefix("-") for word in words if word.startswith("-")}
    unknown = sorted((added - CONTROLLERS.keys()) | (removed - CONTROLLERS.keys() - _ELSEWHERE))
    if unknown:
        raise UnknownController(unknown, CONTROLLERS)
    if _ALL in words:
        added |= CONTROLLERS.keys()
    names = tuple(name for name in CONTROLLERS if name in added - removed)
    if not names:
        raise NoControllers(text)
    return names


def made(names: Iterable[str], options: Options | None = None) -> list[Controller]:
    return [CONTROLLERS[name](options or Options()) for name in names]


def all_controllers() -> list[Controller]:
    return made(CONTROLLERS)


def kinds_read_by(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind for one in made(names) for kind in one.reads))


def shard_of(names: Sequence[str]) -> str:
    """What the processes that run these controllers elect their leader by.

    Processes with the same set take turns; those with sets that have nothing in common lead
    side by side.
    """
    if set(names) == CONTROLLERS.keys():
        return CLUSTER
    return ":".join(name.removesuffix("-controller") for name in names)
