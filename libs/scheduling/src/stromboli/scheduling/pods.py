"""Pods as tasks: what each asks for, what it insists on, and how far it has come.

Pods with the same requests and constraints share one `TaskClass`: they have the same feasible
nodes and the same scores, and are placed together. The class is a value, so that what was
computed for it once is found again, whichever pod asks.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec

from stromboli.api.core import (
    Container,
    NodeSelector,
    Pod,
    PodSchedulingGate,
    PreferredSchedulingTerm,
    Toleration,
)
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.meta import Condition
from stromboli.api.wellknown import (
    GROUP_NAME,
    PREEMPTABLE,
    QUEUE_ALLOCATION_GATE,
    REVOCABLE_ZONE,
    STRATEGY_SCORING_TYPE,
    STRATEGY_WEIGHT,
    TASK_PRIORITY,
    TASK_SPEC,
    VOLCANO_GROUP_NAME,
)
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.operators import unknown_operator
from stromboli.scheduling.resources import CPU, MEMORY, PODS, Amounts, added, amounts_of, larger
from stromboli.scheduling.slim_pods import NO_LABELS, SlimPod, labels_in, packed_labels
from stromboli.scheduling.social import Social, read_social

__all__ = [
    "BY_ORDER",
    "TOLD_TO_GO",
    "Claim",
    "JobKey",
    "Notes",
    "PodKey",
    "QueueGate",
    "Task",
    "TaskClass",
    "TaskStatus",
    "are_alike",
    "claims_of",
    "class_of",
    "index_in",
    "let_through",
    "make_task",
    "read_notes",
    "read_task",
]

JobKey: TypeAlias = tuple[str, str]
"""Namespace and name of a PodGroup."""
PodKey: TypeAlias = tuple[str, str]
Claim: TypeAlias = tuple[str, str]
"""Namespace and name of a claim for a volume."""

TOLD_TO_GO: Final = "PreemptionByScheduler"
"""The reason of the condition DisruptionTarget, as kube-scheduler and Volcano have it."""
_ONE_POD: Final[Amounts] = ((PODS, 1),)
_NO_INDEX: Final = 1 << 62
_MOST_DIGITS: Final = 12


BY_ORDER: Final = attrgetter("index", "created", "name")
"""`Task.order`, for sorting very many."""


class TaskStatus(StrEnum):
    """Volcano's names: they appear in messages that people search for."""

    PENDING = "Pending"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class QueueGate(StrEnum):
    """Where a pod stands whose queue must have room before anybody may see that it waits."""

    NONE = ""
    """It is none of its queue's business."""
    CLOSED = "Closed"
    """Only this gate holds it."""
    OPENING = "Opening"
    """We asked for its removal, and do not see that yet."""
    OPEN = "Open"
    """It has passed; until it has a node, its queue keeps room for it."""


_BY_PHASE: Final = {
    "Running": TaskStatus.RUNNING,
    "Succeeded": TaskStatus.SUCCEEDED,
    "Failed": TaskStatus.FAILED,
    "Unknown": TaskStatus.UNKNOWN,
}
_ENDED: Final = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_THROUGH: Final = (QueueGate.OPENING, QueueGate.OPEN)


class TaskClass(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What pods have in common that one placement can serve."""

    request: Amounts
    """With one pod among them."""
    node_selector: tuple[tuple[str, str], ...] = ()
    required: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[PreferredSchedulingTerm, ...] = ()
    images: tuple[str, ...] = ()
    is_revocable: bool = False
    """Says that it can be sent away from a node that is only lent (`tdm`)."""
    social: Social | None = None
    """What it asks of its neighbours; then it is placed one pod at a time."""
    claims: tuple[Claim, ...] = ()
    """Volumes that it needs; then too."""
    strategy: tuple[str, str] = ("", "")
    """What it says of how its nodes are scored (`resource-strategy-fit`), as it is written."""
    burst: Amounts = ()
    """Cpu and memory that its limits allow beyond its request (`usage`)."""
    problem: str = ""
    """What it asks of nodes or neighbours that means nothing; then it is not placed."""

    @property
    def is_best_effort(self) -> bool:
        """Asks for nothing but a place; backfill places it, allocate does not."""
        return self.request == _ONE_POD


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod as the scheduler sees it. A changed pod is a new Task."""

    namespace: str
    name: str
    uid: str
    group: str
    """The PodGroup that we place it with; empty for a pod that only takes room."""
    role: str
    kind: TaskClass
    status: TaskStatus
    node: str
    priority: int
    created: str
    bound_at: str
    gated: bool
    queue_gate: QueueGate = QueueGate.NONE
    index: int = _NO_INDEX
    """Its number among its like, by its name."""
    preemptable: bool = True
    """Whether it may be asked to make room for others."""
    may_preempt: bool = True
    """Whether others may be asked to make room for it."""
    class_name: str = ""
    """Of its priority class."""
    nominated: str = ""
    """The node where others are ending on its behalf."""
    started_at: str = ""
    evicted_at: str = ""
    """When a scheduler told it to go, of a pod that is ending for that reason."""
    conditions: tuple[Condition, ...] = ()
    """Of a pod without a node."""
    packed_labels: bytes = NO_LABELS
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def labels(self) -> dict[str, str]:
        return labels_in(self.packed_labels)

    @property
    def job(self) -> JobKey:
        return (self.namespace, self.group)

    @property
    def is_earmarked(self) -> bool:
        """Whether its queue let it through its gate, and it has no node yet."""
        return self.queue_gate in _THROUGH and self.status is TaskStatus.PENDING

    @property
    def takes_room(self) -> bool:
        return bool(self.node) and self.status not in _ENDED

    @property
    def order(self) -> tuple[int, str, str]:
        """Among tasks of equal priority: by index, then age, then name."""
        return (self.index, self.created, self.name)


def are_alike(one: Task, other: Task) -> bool:
    """Of one job, role, class and status, so that they can be counted together."""
    return (
        one.group == other.group
        and one.kind is other.kind
        and one.role == other.role
        and one.status is other.status
        and one.gated == other.gated
        and one.queue_gate is other.queue_gate
        and one.namespace == other.namespace
    )


def let_through(tasks: Iterable[Task]) -> int:
    """How many of these passed the gate of their queue, or are about to."""
    return sum(task.queue_gate in _THROUGH for task in tasks)


def index_in(pod_name: str) -> int:
    """`job-role-7` is number 7; names of fewer parts have no number."""
    job_and_role, _, last = pod_name.rpartition("-")
    is_number = last.isdecimal() and len(last) < 18 and "-" in job_and_role
    return int(last) if is_number else _NO_INDEX


class Notes(msgspec.Struct, frozen=True, gc=False):
    """What the annotations of a pod say to the scheduler; pods of one job have the same."""

    annotations: dict[str, str]
    group: str
    role: str
    preemptable: str
    priority: int | None
    is_revocable: bool
    strategy: tuple[str, str]
    asks_queue: bool = False
    """Whether its queue is to let it through a gate."""


def read_notes(annotations: dict[str, str]) -> Notes:
    stated = annotations.get(TASK_PRIORITY, "")
    is_number = stated.removeprefix("-").isdecimal() and len(stated) < _MOST_DIGITS
    preemptable = annotations.get(PREEMPTABLE, "")
    return Notes(
        annotations=annotations,
        group=annotations.get(GROUP_NAME) or annotations.get(VOLCANO_GROUP_NAME, ""),
        role=annotations.get(TASK_SPEC, ""),
        preemptable=preemptable,
        priority=int(stated) if is_number else None,
        is_revocable=(annotations.get(REVOCABLE_ZONE) == "*" or preemptable.lower() == "true"),
        strategy=(annotations.get(STRATEGY_SCORING_TYPE, ""), annotations.get(STRATEGY_WEIGHT, "")),
        asks_queue=annotations.get(QUEUE_ALLOCATION_GATE) == "true",
    )


def read_task(pod: Pod, scheduler_names: frozenset[str]) -> Task:
    """Raises BadFact for requests that can't be reckoned with."""
    labels = packed_labels(pod.metadata.labels)
    notes = read_notes(pod.metadata.annotations)
    return make_task(pod, notes, class_of(pod), scheduler_names, labels=labels)


def make_task(
    pod: Pod | SlimPod,
    notes: Notes,
    kind: TaskClass,
    scheduler_names: frozenset[str],
    *,
    labels: bytes,
) -> Task:
    """The pod as a task, of this class, with these annotations and these labels as they travel.

    Raises BadFact for one that is ours to place and can't be: whoever has a node takes room there.
    """
    spec, metadata, status = pod.spec, pod.metadata, pod.status
    said, name, node = metadata.labels, metadata.name, spec.node_name
    if kind.problem and not node and spec.scheduler_name in scheduler_names:
        raise BadFact("a pod", kind.problem)
    return Task(
        namespace=metadata.namespace,
        name=name,
        uid=metadata.uid,
        group=notes.group if spec.scheduler_name in scheduler_names else "",
        role=notes.role or said.get(TASK_SPEC, ""),
        kind=kind,
        status=_status(pod),
        node=node,
        priority=_priority(notes.priority, spec.priority),
        created=metadata.creation_timestamp or "",
        bound_at=_bound_at(status.conditions) if node else "",
        gated=bool(spec.scheduling_gates),
        queue_gate=_queue_gate(spec.scheduling_gates, asks=notes.asks_queue),
        index=index_in(name),
        preemptable=(notes.preemptable or said.get(PREEMPTABLE, "")).lower() != "false",
        may_preempt=spec.preemption_policy != "Never",
        class_name=spec.priority_class_name,
        nominated=status.nominated_node_name,
        started_at=status.start_time or "",
        evicted_at=_evicted_at(status.conditions) if node and metadata.deletion_timestamp else "",
        conditions=() if node else status.conditions,
        packed_labels=labels,
        annotations=notes.annotations,
    )


def _priority(annotated: int | None, own: int | None) -> int:
    """An annotation with a whole number overrides the pod's own; without either it is 1."""
    if annotated is not None:
        return annotated
    return 1 if own is None else own


def _status(pod: Pod | SlimPod) -> TaskStatus:
    status = _BY_PHASE.get(pod.status.phase)
    if status is not None and status in _ENDED:
        return status
    if pod.metadata.deletion_timestamp:
        return TaskStatus.RELEASING
    if status is not None:
        return status
    return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING


def _queue_gate(gates: tuple[PodSchedulingGate, ...], *, asks: bool) -> QueueGate:
    if not gates:
        return QueueGate.OPEN if asks else QueueGate.NONE
    only = all(gate.name == QUEUE_ALLOCATION_GATE for gate in gates)
    return QueueGate.CLOSED if only else QueueGate.NONE


def _bound_at(conditions: Iterable[Condition]) -> str:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time or ""
    return ""


def _evicted_at(conditions: Iterable[Condition]) -> str:
    for condition in conditions:
        if condition.type == "DisruptionTarget" and condition.reason == TOLD_TO_GO:
            return condition.last_transition_time or ""
    return ""


def class_of(pod: Pod) -> TaskClass:
    """Known by the bytes of what it is made from. Raises BadFact, as `read_task` does."""
    spec, metadata = pod.spec, pod.metadata
    affinity = spec.affinity
    of_pods = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    is_sociable = bool(of_pods) or bool(spec.topology_spread_constraints)
    notes = read_notes(metadata.annotations)
    key = _ENCODER.encode(
        (
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            notes.is_revocable,
            notes.strategy,
            claims_of(pod) if spec.volumes else None,
            # Terms may speak of the pod's own namespace and labels.
            (metadata.namespace, metadata.labels) if is_sociable else None,
        )
    )
    known = _CLASSES.get(key)
    if known is None:
        if len(_CLASSES) >= _MOST_CLASSES:
            _CLASSES.clear()
        known = _CLASSES[key] = _interned(_read_class(pod))
    return known


_ENCODER: Final = msgspec.msgpack.Encoder()
_CLASSES: Final[dict[bytes, TaskClass]] = {}
_MOST_CLASSES: Final = 1 << 14


def _read_class(pod: Pod) -> TaskClass:
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    notes = read_notes(pod.metadata.annotations)
    return TaskClass(
        request=_request(pod),
        node_selector=tuple(sorted(spec.node_selector.items())),
        required=(
            affinity.required_during_scheduling_ignored_during_execution if affinity else None
        ),
        tolerations=spec.tolerations,
        preferred=(
            affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        ),
        images=tuple(
            container.image
            for container in (*spec.init_containers, *spec.containers)
            if container.image
        ),
        is_revocable=notes.is_revocable,
        social=read_social(pod),
        claims=claims_of(pod),
        strategy=notes.strategy,
        burst=_burst(pod),
        problem=unknown_operator(pod),
    )


def claims_of(pod: Pod | SlimPod) -> tuple[Claim, ...]:
    """Those that it names, and those that are made with it."""
    where, name = pod.metadata.namespace, pod.metadata.name
    return tuple(
        (where, volume.persistent_volume_claim.claim_name)
        if volume.persistent_volume_claim is not None
        else (where, f"{name}-{volume.name}")
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    )


@lru_cache(maxsize=1 << 14)
def _interned(kind: TaskClass) -> TaskClass:
    # Comparing a class with itself is then a comparison of addresses.
    return kind


_Resources: TypeAlias = tuple[tuple[str, QuantityText], ...]
_Asking: TypeAlias = tuple[_Resources, _Resources, bool]
"""Limits, requests, and whether it is a sidecar."""


def _request(pod: Pod) -> Amounts:
    """What the pod needs at its peak."""
    spec = pod.spec
    of_pod = spec.resources.requests if spec.resources is not None else {}
    return _peak(
        tuple(_asking(container) for container in spec.containers),
        tuple(_asking(container) for container in spec.init_containers),
        tuple(of_pod.items()),
        tuple(spec.overhead.items()),
    )


def _burst(pod: Pod) -> Amounts:
    """A container without a limit adds nothing: nobody knows what it will use."""
    spec, asked = pod.spec, dict(_request(pod))
    limits = added(_amounts(one.resources.limits.items()) for one in spec.containers)
    for starting in spec.init_containers:
        limits = larger(limits, _amounts(starting.resources.limits.items()))
    beyond = ((name, units - asked.get(name, 0)) for name, units in limits)
    return tuple((name, units) for name, units in beyond if name in (CPU, MEMORY) and units > 0)


def _asking(container: Container) -> _Asking:
    resources = container.resources
    return (
        tuple(resources.limits.items()),
        tuple(resources.requests.items()),
        container.restart_policy == "Always",
    )


@lru_cache(maxsize=1 << 14)
def _peak(
    containers: tuple[_Asking, ...],
    init_containers: tuple[_Asking, ...],
    of_pod: _Resources,
    overhead: _Resources,
) -> Amounts:
    """Its containers together, or an init container alone, whichever is more.

    A sidecar (an init container that stays) counts with the containers, and with every init
    container after it. Kubernetes' pod-level requests, where given, speak for all of them.
    Very many pods have very few distinct requests, hence the cache.
    """
    together = added(_asked(one) for one in containers)
    starting: Amounts = ()
    sidecars: Amounts = ()
    for one in init_containers:
        with_sidecars = added((sidecars, _asked(one)))
        starting = larger(starting, with_sidecars)
        if one[2]:
            sidecars = with_sidecars
    together = larger(added((together, sidecars)), starting)
    named = dict(together) | dict(_amounts(of_pod))
    return added((tuple(named.items()), _amounts(overhead), _ONE_POD))


def _asked(one: _Asking) -> Amounts:
    """A limit stands in for a request that is absent, as the API server fills it in."""
    limits, requests, _ = one
    return _amounts((*limits, *requests))


def _amounts(resources: Iterable[tuple[str, QuantityText]]) -> Amounts:
    return amounts_of("a pod", dict(resources))
