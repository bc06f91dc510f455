"""The one way in: manifests and a configuration to a cluster, the cluster to its result.

`vcctl simulate` and the scenarios of the tests go this way.
"""

from collections.abc import Iterable

from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.errors import BadConfiguration
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.doubts import doubts_about
from stromboli.simulating.errors import BadInput, NeverSettles, RefusedObject, listed
from stromboli.simulating.kubelet import RunsFor, run_seconds
from stromboli.simulating.manifests import Manifests, Source, is_asked_about, read_manifests
from stromboli.simulating.store import place_of

__all__ = ["cluster_of", "load", "run_cycles", "run_until_idle"]


def load(
    sources: Iterable[Source],
    conf: SchedulingConf | None = None,
    *,
    runs_for: RunsFor = run_seconds,
) -> tuple[Cluster, list[str]]:
    """A cluster with all that the files hold, and warnings; raises BadInput."""
    manifests = read_manifests(sources)
    cluster = cluster_of(manifests, conf, runs_for=runs_for)
    return cluster, manifests.warnings


def cluster_of(
    manifests: Manifests, conf: SchedulingConf | None = None, *, runs_for: RunsFor = run_seconds
) -> Cluster:
    """Nothing has happened in it yet. Raises BadInput for jobs that admission refuses.

    Of everything else it is a warning: it may be there all the same, and the scheduler sees what
    it can make of it. What it can not reckon with at all is set aside, as in a cluster.
    """
    try:
        cluster = Cluster(conf, start=manifests.latest, runs_for=runs_for)
    except BadConfiguration as bad:
        # Some plugins need what a simulation has not, such as a connection.
        raise BadInput("the scheduler's configuration", listed(bad.problems)) from bad
    for where, item in manifests.given:
        try:
            cluster.put(item)
        except RefusedObject as no:
            if is_asked_about(item):
                raise BadInput(where, str(no)) from no
            if place_of(item) not in manifests.circling:
                manifests.warnings.append(f"{where}: {no}; it is there all the same")
            cluster.put(item, whatever=True)
    manifests.warnings += doubts_about(manifests.given, cluster)
    return cluster


def run_cycles(cluster: Cluster, cycles: int) -> None:
    """So many cycles of the scheduler and nothing after the last; none of them takes time.

    Between two of them controllers react and bound pods start, but nobody who was evicted is
    gone yet. A scheduler that has nothing to decide is not asked.
    """
    for number in range(cycles):
        if number:
            cluster.start_bound()
        cluster.prepare()
        if not cluster.session():
            return


def run_until_idle(cluster: Cluster) -> str:
    """Until nothing changes any more; returns why it was given up, if it was."""
    try:
        cluster.settle()
        while cluster.next_end < float("inf"):
            cluster.advance_to(cluster.next_end)
    except NeverSettles as circle:
        return str(circle)
    return ""
