"""Which plugins there are: ours, and those that other distributions bring along.

Entry points are looked up once per process, when the first job asks for a plugin that is not
one of ours. A plugin of somebody else's may be broken; then the job that asks for it says so,
and no other job is disturbed.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias, cast

from stromboli.api.batch import Job
from stromboli.lifecycle.errors import PluginFailed
from stromboli.lifecycle.plugins.drafts import (
    Demanding,
    JobPlugin,
    NeededObject,
    NeededSecret,
    PodDraft,
)
from stromboli.lifecycle.plugins.env import EnvPlugin
from stromboli.lifecycle.plugins.hcclrank import HcclRankPlugin
from stromboli.lifecycle.plugins.mpi import MpiPlugin
from stromboli.lifecycle.plugins.pytorch import PytorchPlugin
from stromboli.lifecycle.plugins.ray import RayPlugin
from stromboli.lifecycle.plugins.ssh import SshPlugin
from stromboli.lifecycle.plugins.svc import SvcPlugin
from stromboli.lifecycle.plugins.tensorflow import TensorflowPlugin

__all__ = [
    "ENTRY_POINTS",
    "IN_TREE",
    "forget_installed",
    "known_plugins",
    "plugins_of",
    "unknown_plugins",
]

ENTRY_POINTS: Final = "stromboli.job_plugins"
"""The group; the name of an entry point is what a job writes in `spec.plugins`."""

MakePlugin: TypeAlias = Callable[[Sequence[str]], JobPlugin]
"""Given the job's arguments for it."""

IN_TREE: Final[Mapping[str, MakePlugin]] = {
    "env": EnvPlugin,
    "hcclrank": HcclRankPlugin,
    "mpi": MpiPlugin,
    "pytorch": PytorchPlugin,
    "ray": RayPlugin,
    "ssh": SshPlugin,
    "svc": SvcPlugin,
    "tensorflow": TensorflowPlugin,
}


def known_plugins() -> frozenset[str]:
    """The names that a job may use."""
    return frozenset(IN_TREE) | frozenset(_installed())


def unknown_plugins(job: Job) -> list[str]:
    asked = [name for name in job.spec.plugins if name not in IN_TREE]
    return sorted(name for name in asked if name not in _installed())


def plugins_of(job: Job) -> list[JobPlugin]:
    """The job's plugins by name, so that equal jobs get equal pods."""
    return [
        IN_TREE[name](arguments) if name in IN_TREE else _Foreign(name, arguments)
        for name, arguments in sorted(job.spec.plugins.items())
        if name in IN_TREE or name in _installed()
    ]


@cache
def _installed() -> dict[str, EntryPoint]:
    """Ours come first: nobody takes the place of a plugin that Volcano's users know."""
    found = entry_points(group=ENTRY_POINTS)
    return {point.name: point for point in found if point.name not in IN_TREE}


def forget_installed() -> None:
    """Look entry points up again; for those who install something into a running process."""
    _installed.cache_clear()


class _Foreign:
    """A plugin of somebody else's: whatever goes wrong in it is told as its own failure."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self._name = name
        with _blaming(name, "start"):
            make = cast("MakePlugin", _installed()[name].load())
            self._plugin = make(arguments)

    @property
    def name(self) -> str:
        return self._name

    def lacks(self, job: Job) -> str:
        with _blaming(self._name, "look at the job"):
            return self._plugin.lacks(job) if isinstance(self._plugin, Demanding) else ""

    def dress(self, job: Job, pod: PodDraft) -> None:
        with _blaming(self._name, f"dress pod {pod.name}"):
            self._plugin.dress(job, pod)

    def needs(self, job: Job) -> list[NeededObject | NeededSecret]:
        with _blaming(self._name, "say what it needs"):
            return self._plugin.needs(job)


@contextmanager
def _blaming(name: str, while_: str) -> Generator[None]:
    try:
        yield
    except Exception as fault:
        raise PluginFailed(name, while_, fault) from fault
