"""Job plugins: what `spec.plugins` of a job adds to its pods and around them.

A plugin never acts: it dresses the pods that are about to be made and names the objects that
they need. The list below is all there is; a plugin is one module and one line here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stromboli.api.batch import Job
from stromboli.lifecycle.plugins.drafts import JobPlugin, NeededObject, NeededSecret, PodDraft
from stromboli.lifecycle.plugins.env import EnvPlugin
from stromboli.lifecycle.plugins.ssh import SshPlugin
from stromboli.lifecycle.plugins.svc import SvcPlugin

__all__ = [
    "PLUGINS",
    "JobPlugin",
    "NeededObject",
    "NeededSecret",
    "PodDraft",
    "plugins_of",
    "unknown_plugins",
]

PLUGINS: Final[Mapping[str, Callable[[Sequence[str]], JobPlugin]]] = {
    "env": EnvPlugin,
    "ssh": SshPlugin,
    "svc": SvcPlugin,
}


def plugins_of(job: Job) -> list[JobPlugin]:
    """The job's plugins by name, so that equal jobs get equal pods."""
    asked = sorted(job.spec.plugins.items())
    return [PLUGINS[name](arguments) for name, arguments in asked if name in PLUGINS]


def unknown_plugins(job: Job) -> list[str]:
    return sorted(name for name in job.spec.plugins if name not in PLUGINS)
