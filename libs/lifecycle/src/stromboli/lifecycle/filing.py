"""Which decisions an object matters to, told from the object alone.

A key names one decision: `<kind>/<namespace>/<name>` of what is decided about. An object
matters to its own key, to what controls it or was named as its target, and a pod that has no
Volcano job to the gang it belongs in.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.api.bus import Command
from stromboli.api.core import BatchJob, DaemonSet, Pod, ReplicaSet, StatefulSet
from stromboli.api.cron import CronJob
from stromboli.api.flow import JobFlow, JobTemplate
from stromboli.api.meta import ObjectMeta, OwnerReference
from stromboli.api.owners import controller_of
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.api.wellknown import CREATED_BY_JOB_TEMPLATE
from stromboli.contracts.partitions import job_key

__all__ = ["Place", "gang_name", "keys_of", "parts_of"]

Place: TypeAlias = tuple[str, str]
"""Namespace and name."""

_DECIDED: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (kinds.VC_JOB, kinds.QUEUE, kinds.VC_CRON_JOB, kinds.JOB_FLOW)
}
_GANG: Final = "podgroup-"


def parts_of(key: str) -> tuple[str, str, str]:
    """The kind, namespace and name that a key was made of."""
    kind, namespace, name = key.split("/", 2)
    return kind, namespace, name


def gang_name(metadata: ObjectMeta) -> str:
    """The name of the gang that a pod of nobody's job belongs in: its controller's, or its own."""
    owner = controller_of(metadata)
    return f"{_GANG}{metadata.uid if owner is None else owner.uid}"


def keys_of(kind: str, place: Place, item: Any) -> tuple[str, ...]:
    """The keys of the decisions that this object matters to."""
    return tuple(dict.fromkeys(_keys(kind, place, item)))


def _keys(kind: str, place: Place, item: Any) -> Iterator[str]:
    namespace, name = place
    match item:
        case Queue() | CronJob() | JobFlow() | JobTemplate():
            yield job_key(kind, namespace, name)
        case Job():
            yield job_key(kind, namespace, name)
            yield from _key_of(namespace, controller_of(item.metadata))
            yield from _template_key(item.metadata)
        case PodGroup():
            yield from _key_of(namespace, controller_of(item.metadata))
            if name.startswith(_GANG):
                yield job_key(kind, namespace, name)
        case Pod():
            yield from _pod_keys(namespace, item)
        case ReplicaSet() | StatefulSet() | DaemonSet() | BatchJob():
            yield _gang_key(namespace, f"{_GANG}{item.metadata.uid}")
        case Command():
            yield from _key_of(namespace, item.target)
        case _:
            pass


def _pod_keys(namespace: str, pod: Pod) -> Iterator[str]:
    owner = controller_of(pod.metadata)
    if owner is not None and (owner.api_version, owner.kind) in _DECIDED:
        yield from _key_of(namespace, owner)
    else:
        yield _gang_key(namespace, gang_name(pod.metadata))


def _gang_key(namespace: str, name: str) -> str:
    return job_key(kinds.VC_POD_GROUP.token, namespace, name)


def _key_of(namespace: str, owner: OwnerReference | None) -> Iterator[str]:
    kind = None if owner is None else _DECIDED.get((owner.api_version, owner.kind))
    if kind is not None and owner is not None:
        yield job_key(kind.token, namespace if kind.namespaced else "", owner.name)


def _template_key(metadata: ObjectMeta) -> Iterator[str]:
    """Annotation and label are `<namespace>.<name>`; a namespace has no dots, a name may."""
    says = metadata.annotations.get(CREATED_BY_JOB_TEMPLATE) or metadata.labels.get(
        CREATED_BY_JOB_TEMPLATE, ""
    )
    namespace, _, name = says.partition(".")
    if namespace == metadata.namespace and name:
        yield job_key(kinds.JOB_TEMPLATE.token, namespace, name)
