"""Why gangs wait that the scheduler has nothing to place of.

In a cluster they wait for somebody who makes their pods or their PodGroup, and the scheduler
has nothing to say about them. Whoever simulates wants to hear of every job that does not run.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from stromboli.api.scheduling import PodGroup, PodGroupPhase
from stromboli.api.timestamps import parse_time
from stromboli.scheduling.explain import Code, Explanation, Unblock
from stromboli.scheduling.pods import JobKey
from stromboli.simulating.cluster import Cluster

__all__ = ["explanations_of"]

_SETTLED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})


def explanations_of(cluster: Cluster) -> Mapping[JobKey, Explanation]:
    """Of every gang that does not run: the scheduler's word, else who is missing."""
    return {**dict(_absent(cluster)), **cluster.core.reasons()}


def _absent(cluster: Cluster) -> Iterator[tuple[JobKey, Explanation]]:
    for key, job in cluster.core.cluster.jobs.items():
        group = job.pod_group
        if job.tasks and group is None:
            sentence = f"its PodGroup {key[1]!r} does not exist"
            yield key, _incomplete(sentence, cluster.now, cluster.now)
        elif not job.tasks and group is not None and group.status.phase not in _SETTLED:
            least = job.min_member
            plural = "pod" if least == 1 else "pods"
            sentence = f"0 of at least {least} {plural} exist and can still run"
            if not least:
                sentence = "none of its pods exist"
            yield key, _incomplete(sentence, _created(group, cluster.now), cluster.now)


def _incomplete(sentence: str, since: float, now: float) -> Explanation:
    code, unblock = Code.GANG_INCOMPLETE, Unblock.JOB
    return Explanation(code, sentence, unblock, since=since, evaluated=now)


def _created(group: PodGroup, otherwise: float) -> float:
    text = group.metadata.creation_timestamp
    return parse_time(text).timestamp() if text else otherwise
