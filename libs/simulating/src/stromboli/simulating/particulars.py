"""What people want to know of a simulation besides its document.

The document has its keys, which programs rely on. A person who reads a table also asks how many
pods still wait, where the evicted were, and for whom they had to go.
"""

from typing import NamedTuple

from stromboli.api.core import Pod
from stromboli.scheduling.asking import POD_EVICTED
from stromboli.simulating.cluster import Cluster

__all__ = ["Evicted", "Particulars", "particulars_of"]


class Evicted(NamedTuple):
    """One pod that had to go; what nobody told is empty."""

    node: str = ""
    action: str = ""
    claimant: str = ""
    """The job that it went for."""


class Particulars(NamedTuple):
    """Of the cluster as it is now."""

    waiting: int
    """Pods of ours that have no node."""
    evicted: dict[str, Evicted]
    """By "namespace/pod"; of one that had to go several times, the last."""


def particulars_of(cluster: Cluster) -> Particulars:
    waiting = sum(
        isinstance(item, Pod)
        and item.spec.scheduler_name in cluster.scheduler_names
        and not item.spec.node_name
        and not item.metadata.deletion_timestamp
        and item.status.phase == "Pending"
        for item in cluster.objects.values()
    )
    evicted = dict.fromkeys(("/".join(key) for key in cluster.evictions), Evicted())
    for line in cluster.history:
        name = f"{line.namespace}/{line.detail.get('pod', '')}"
        if line.what == POD_EVICTED and name in evicted:
            detail = line.detail
            evicted[name] = Evicted(detail["node"], detail["action"], detail.get("for", ""))
    return Particulars(waiting, evicted)
