"""Admission in a simulated cluster: the same defaults and rules, asked about the same objects.

What comes from somewhere where it was admitted already (it has a uid, a resourceVersion or a
status) is not judged again: a job may be in a queue that was closed after it came.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.questions import UserInfo
from stromboli.admitting.rehearsing import rehearse
from stromboli.api.core import Pod
from stromboli.api.kinds import kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.api.wellknown import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from stromboli.api.wire import encode_object, read_object
from stromboli.simulating.errors import RefusedObject
from stromboli.simulating.store import Store

__all__ = ["Admission"]

_WHO: Final = "simulation"
_REVIEWED: Final = frozenset(
    {"vcjob", "queue", "vcpodgroup", "pod", "hypernode", "vccronjob", "jobflow"}
)
_OF_PODS: Final = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)


class Admission:
    """Answers from the objects that are there: it is admission's `Surroundings` too."""

    def __init__(self, store: Store, scheduler_names: Sequence[str]) -> None:
        self.is_synced = True
        self._store = store
        self._conf = AdmissionConf(scheduler_names=tuple(scheduler_names), trusted_users=(_WHO,))

    def admitted(self, item: KubeObject, *, whatever: bool = False) -> KubeObject:
        """The object with its defaults; raises RefusedObject, unless it is there whatever."""
        kind = kind_of(item)
        if kind.token not in _REVIEWED or _says_nothing_to_us(item):
            return item
        rehearsal = rehearse(
            msgspec.json.decode(encode_object(item)),
            self,
            conf=self._conf,
            user=UserInfo(username=_WHO),
            namespace=item.metadata.namespace,
        )
        if whatever or rehearsal.verdict.allowed or _was_admitted(item):
            return read_object(kind, rehearsal.object)
        where = f"{item.metadata.namespace}/" if kind.namespaced else ""
        raise RefusedObject(f"{kind.kind} {where}{item.metadata.name}", rehearsal.verdict.message)

    # What rules may ask.

    def queue(self, name: str) -> Queue | None:
        return self._store.objects.get(("queue", "", name))

    def queues(self) -> Iterable[Queue]:
        return self._store.of_kind("queue")

    def children_of(self, queue: str) -> Sequence[Queue]:
        return [one for one in self.queues() if one.spec.parent == queue]

    def allocated_pods(self, queue: str) -> int:
        """Asked only about queues that are to be deleted, which nobody does here."""
        del queue
        return 0

    def pod_groups_in(self, queue: str) -> int:
        return sum(group.spec.queue == queue for group in self._store.of_kind("vcpodgroup"))

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        found = self._store.objects.get(("namespace", "", namespace))
        return found.metadata.annotations if found is not None else {}

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return self._store.objects.get(("vcpodgroup", namespace, name))


def _says_nothing_to_us(item: KubeObject) -> bool:
    """The rules for pods look at two annotations; there may be very many pods."""
    annotations = item.metadata.annotations
    return isinstance(item, Pod) and not any(key in annotations for key in _OF_PODS)


def _was_admitted(item: Any) -> bool:
    metadata = item.metadata
    if metadata.uid or metadata.resource_version:
        return True
    status = getattr(item, "status", None)
    return status is not None and status != type(status)()
