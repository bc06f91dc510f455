"""What whoever gave objects should know of them, because nobody in a cluster would say it aloud.

What can't be reckoned with is set aside, and what is misspelt means nothing: both are no error,
and both are rarely what was meant.
"""

from collections.abc import Iterator
from typing import Final

from stromboli.api.batch import Job
from stromboli.api.core import BatchJob, DaemonSet, Pod, ReplicaSet, StatefulSet
from stromboli.api.kinds import kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import PodGroup
from stromboli.api.wellknown import GROUP_NAME, VOLCANO_GROUP_NAME
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.completing import is_class
from stromboli.simulating.manifests import Given
from stromboli.simulating.store import place_of

__all__ = ["doubts_about"]

_ASIDE: Final = " is set aside: "


def doubts_about(given: list[Given], cluster: Cluster) -> list[str]:
    """In the order in which the objects were taken in; nothing has happened to them yet."""
    unusable = cluster.unusable()
    found: list[str] = []
    for where, item in given:
        if why := unusable.get(place_of(item)):
            found.append(f"{where}: {_named(item, why)}")
        found += [f"{where}: {doubt}" for doubt in _about(item, cluster)]
    return found


def _about(item: KubeObject, cluster: Cluster) -> Iterator[str]:
    match item:
        case Pod():
            yield from _of_pod(item, cluster)
        case PodGroup():
            job = cluster.core.cluster.jobs.get((item.metadata.namespace, item.metadata.name))
            if job is not None and job.problem:
                yield job.problem
            yield from _of_class(item, item.spec.priority_class_name, cluster)
        case Job():
            yield from _of_class(item, item.spec.priority_class_name, cluster)
        case ReplicaSet() | StatefulSet() | DaemonSet() | BatchJob() if not item.metadata.uid:
            # People wrote it, and the controllers of Kubernetes would make pods of it.
            yield f"the pods of {_name(item)} are made by nobody here: give them as Pods"
        case _:
            pass


def _of_pod(pod: Pod, cluster: Cluster) -> Iterator[str]:
    annotations = pod.metadata.annotations
    stands = cluster.objects.get(place_of(pod), pod)
    is_ours = stands.spec.scheduler_name in cluster.scheduler_names
    if is_ours and annotations.get(VOLCANO_GROUP_NAME) and not annotations.get(GROUP_NAME):
        yield (
            f"{_name(pod)} names its PodGroup by {VOLCANO_GROUP_NAME}, which is not read here: "
            f"without {GROUP_NAME} it gets a PodGroup of its own"
        )
    if pod.spec.priority is None:
        yield from _of_class(pod, pod.spec.priority_class_name, cluster)


def _of_class(item: KubeObject, name: str, cluster: Cluster) -> Iterator[str]:
    if name and not is_class(name, cluster.objects):
        yield f"{_name(item)}: there is no PriorityClass {name!r}, so it counts as without one"


def _named(item: KubeObject, why: str) -> str:
    """With the object's own name in place of `a pod` or `it`."""
    _, namespace, name = place_of(item)
    said = why.removeprefix(f"{namespace}/{name}: ")
    who, aside, problem = said.partition(_ASIDE)
    return f"{_name(item)}{_ASIDE}{problem}" if aside and who in ("a pod", "it") else said


def _name(item: KubeObject) -> str:
    kind = kind_of(item)
    within = f"{item.metadata.namespace}/" if kind.namespaced else ""
    return f"{kind.kind} {within}{item.metadata.name}"
