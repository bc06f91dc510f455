"""Job plugins: what `spec.plugins` of a job adds to its pods and around them.

A plugin never acts: it dresses the pods that are about to be made and names the objects that
they need. One of ours is a module and a line in `registry.IN_TREE`; one of somebody else's is
an entry point in the group `stromboli.job_plugins` (see `drafts.JobPlugin` for what it is).
"""

from stromboli.lifecycle.plugins.drafts import (
    Demanding,
    JobPlugin,
    NeededObject,
    NeededSecret,
    PodDraft,
)
from stromboli.lifecycle.plugins.registry import (
    ENTRY_POINTS,
    IN_TREE,
    known_plugins,
    plugins_of,
    unknown_plugins,
)

__all__ = [
    "ENTRY_POINTS",
    "IN_TREE",
    "Demanding",
    "JobPlugin",
    "NeededObject",
    "NeededSecret",
    "PodDraft",
    "known_plugins",
    "plugins_of",
    "unknown_plugins",
]
