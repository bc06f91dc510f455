"""The one way in: manifests and a configuration to a cluster, the cluster to its result.

`vcctl simulate` and the scenarios of the tests go this way.
"""

from collections.abc import Iterable, Iterator

from stromboli.api.core import BatchJob, DaemonSet, ReplicaSet, StatefulSet
from stromboli.api.kinds import kind_of
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.errors import BadConfiguration
from stromboli.simulating.cluster import Cluster
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
            manifests.warnings.append(f"{where}: {no}; it is there all the same")
            cluster.put(item, whatever=True)
    unusable = cluster.unusable()
    manifests.warnings += [
        f"{where}: {unusable[place_of(item)].removeprefix(f'{namespace}/{name}: ')}"
        for where, item in manifests.given
        for _, namespace, name in (place_of(item),)
        if place_of(item) in unusable
    ]
    manifests.warnings += _without_pods(manifests)
    return cluster


def _without_pods(manifests: Manifests) -> Iterator[str]:
    """Workloads that people wrote, of which the controllers of Kubernetes would make pods."""
    for where, item in manifests.given:
        if isinstance(item, ReplicaSet | StatefulSet | DaemonSet | BatchJob):
            metadata = item.metadata
            if not metadata.uid:
                name = f"{kind_of(item).kind} {metadata.namespace}/{metadata.name}"
                yield f"{where}: the pods of {name} are made by nobody here: give them as Pods"


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
