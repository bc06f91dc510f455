"""Gangs for pods that others make: one PodGroup for all pods of one controller.

Operators (Kubeflow, Spark, Ray …) and Kubernetes' own workloads only say which scheduler they
want. The gang's name carries the controller's uid, so however many of us try, there is one.
A pod learns its gang only when the gang is there: a pod that names one which the API server
refused would wait for it for ever.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.api import kinds
from stromboli.api.core import BatchJob, DaemonSet, Pod, ReplicaSet, StatefulSet
from stromboli.api.errors import ApiError
from stromboli.api.kinds import controller_reference
from stromboli.api.meta import ObjectMeta, OwnerReference
from stromboli.api.numerals import as_number
from stromboli.api.owners import controller_of
from stromboli.api.quantity import parse_quantity
from stromboli.api.scheduling import (
    NetworkTopologyMode,
    NetworkTopologySpec,
    PodGroup,
    PodGroupSpec,
)
from stromboli.api.wellknown import (
    COOLDOWN_TIME,
    GROUP_MIN_MEMBER,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    NETWORK_TOPOLOGY_HIGHEST_TIER,
    NETWORK_TOPOLOGY_MODE,
    PREEMPTABLE,
    REVOCABLE_ZONE,
    SCHEDULING_QUEUE_NAME,
)
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.manifests import compact_manifest
from stromboli.lifecycle.merging import merge_patch
from stromboli.lifecycle.quota import pod_usage
from stromboli.lifecycle.telling import warn
from stromboli.lifecycle.world import Entry

__all__ = ["GangSituation", "Workload", "decide_gang"]

Workload: TypeAlias = ReplicaSet | StatefulSet | DaemonSet | BatchJob

_GROUP: Final = kinds.VC_POD_GROUP.token
_POD: Final = kinds.POD.token
_OF_VOLCANO: Final = "volcano.sh/"
_REVISION: Final = "controller-revision-hash"
_FINISHED: Final = ("Succeeded", "Failed")
_LARGEST_INT32: Final = 2**31 - 1
_PATCHED_AT_ONCE: Final = 250
_SHOWN: Final = 100
"""So much of a text that makes no sense is repeated to its writer."""


class GangSituation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision about a gang rests on."""

    name: str
    group: Entry | None = None
    pods: tuple[Pod, ...] = ()
    """Those that are to be scheduled by us and belong in no other gang."""
    owner: Workload | None = None
    """What controls the pods, if it is of a kind that we know."""
    inherits: bool = True
    """Whether the owner's annotations count."""
    trouble: str = ""
    now: float


def decide_gang(situation: GangSituation, asker: Asker) -> None:
    """One decision about one gang."""
    group = situation.group
    owner = situation.owner
    if isinstance(owner, ReplicaSet | StatefulSet) and owner.spec.replicas == 0:
        if group is not None and _is_alive(group.object.metadata):
            metadata: ObjectMeta = group.object.metadata
            asker.delete(_GROUP, metadata.namespace, metadata.name, uid=group.uid)
        return
    pods = [pod for pod in situation.pods if _waits(pod, situation.name)]
    if not pods:
        return
    speaker = _speaker(pods, owner)
    if situation.trouble:
        message = f"its PodGroup could not be made: {situation.trouble}"
        warn(asker, owner or speaker, "FailedCreatePodGroup", message, now=situation.now)
    try:
        wanted = _build(situation, speaker, asker)
    except ApiError as problem:
        # A quantity that nobody can read: the API server refuses those, but who knows.
        warn(asker, speaker, "InvalidPod", str(problem), now=situation.now)
        return
    if group is None:
        controller = controller_of(wanted.metadata)
        owner_uid = controller.uid if controller is not None else ""
        asker.create(_GROUP, compact_manifest(wanted), owner_uid=owner_uid)
    elif _is_alive(group.object.metadata):
        if isinstance(owner, ReplicaSet | StatefulSet):
            _follow(group, wanted, asker)
        _tell_pods(pods, situation.name, asker)


def _is_alive(metadata: ObjectMeta) -> bool:
    return metadata.deletion_timestamp is None


def _waits(pod: Pod, gang: str) -> bool:
    said = pod.metadata.annotations.get(GROUP_NAME, "")
    return (
        _is_alive(pod.metadata) and pod.status.phase not in _FINISHED and (not said or said == gang)
    )


def _speaker(pods: Sequence[Pod], owner: Workload | None) -> Pod:
    """The pod that the gang is modelled on: the oldest, of a set that is updated the newest kind.

    It is the same however often one looks, so the gang does not change back and forth.
    """
    revision = owner.status.update_revision if isinstance(owner, StatefulSet) else ""

    def rank(pod: Pod) -> tuple[bool, str, str]:
        is_old = bool(revision) and pod.metadata.labels.get(_REVISION) != revision
        return is_old, pod.metadata.creation_timestamp or "", pod.metadata.name

    return min(pods, key=rank)


def _tell_pods(pods: Sequence[Pod], gang: str, asker: Asker) -> None:
    ignorant = [pod for pod in pods if not pod.metadata.annotations.get(GROUP_NAME)]
    for pod in ignorant[:_PATCHED_AT_ONCE]:
        metadata = pod.metadata
        asker.patch(
            _POD,
            metadata.namespace,
            metadata.name,
            uid=metadata.uid,
            body={"metadata": {"annotations": {GROUP_NAME: gang}}},
        )


def _follow(group: Entry, wanted: PodGroup, asker: Asker) -> None:
    """Bring up to date what follows the workload; what others wrote stays."""
    found: PodGroup = group.object
    body: dict[str, Any] = {}
    spec = merge_patch(_sized(found), _sized(wanted))
    if spec:
        body["spec"] = spec
    news = {
        key: value
        for key, value in wanted.metadata.annotations.items()
        if found.metadata.annotations.get(key) != value
    }
    if news:
        body["metadata"] = {"annotations": news}
    if body:
        metadata = found.metadata
        asker.patch(_GROUP, metadata.namespace, metadata.name, uid=group.uid, body=body)


def _sized(group: PodGroup) -> dict[str, Any]:
    return {"minMember": group.spec.min_member, "minResources": dict(group.spec.min_resources)}


def _build(situation: GangSituation, pod: Pod, asker: Asker) -> PodGroup:
    says = pod.metadata.annotations
    inherited = _inherited(situation)
    size = _min_member(situation, inherited, pod, asker)
    usage = pod_usage(pod.spec)
    return PodGroup(
        metadata=ObjectMeta(
            name=situation.name,
            namespace=pod.metadata.namespace,
            labels=_picked(pod.metadata.labels, PREEMPTABLE, COOLDOWN_TIME),
            annotations={
                **{key: said for key, said in inherited.items() if key.startswith(_OF_VOLCANO)},
                **_picked(says, PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE),
                **_budget(says),
            },
            owner_references=_owners(pod),
        ),
        spec=PodGroupSpec(
            min_member=size,
            min_resources={name: str(parse_quantity(q) * size) for name, q in usage.items()},
            priority_class_name=pod.spec.priority_class_name,
            queue=says.get(SCHEDULING_QUEUE_NAME, ""),
            network_topology=_topology(situation, pod, asker),
        ),
    )


def _inherited(situation: GangSituation) -> Mapping[str, str]:
    owner = situation.owner
    return owner.metadata.annotations if owner is not None and situation.inherits else {}


def _picked(said: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: said[key] for key in keys if key in said}


def _budget(said: Mapping[str, str]) -> dict[str, str]:
    """One of the two: the smaller promise where both are given."""
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in said:
            return {key: said[key]}
    return {}


def _owners(pod: Pod) -> tuple[OwnerReference, ...]:
    if controller_of(pod.metadata) is not None:
        return pod.metadata.owner_references
    return (controller_reference(pod),)


def _min_member(
    situation: GangSituation, inherited: Mapping[str, str], pod: Pod, asker: Asker
) -> int:
    text = inherited.get(GROUP_MIN_MEMBER)
    if text is None:
        return 1
    number = as_number(text)
    if number is not None and number <= _LARGEST_INT32:
        return number
    shown = text[:_SHOWN]
    message = f"annotation {GROUP_MIN_MEMBER} is {shown!r}: expected a number of pods; taking 1"
    _complain(situation, pod, message, asker)
    return 1


def _topology(situation: GangSituation, pod: Pod, asker: Asker) -> NetworkTopologySpec | None:
    says = pod.metadata.annotations
    mode, tier = says.get(NETWORK_TOPOLOGY_MODE), says.get(NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    chosen = (mode or NetworkTopologyMode.HARD).lower()
    if chosen not in set(NetworkTopologyMode):
        message = (
            f"annotation {NETWORK_TOPOLOGY_MODE} is {chosen[:_SHOWN]!r}: expected hard or soft"
        )
        _complain(situation, pod, message, asker)
        chosen = NetworkTopologyMode.HARD
    highest = as_number(tier or "")
    if tier is not None and highest is None:
        shown = tier[:_SHOWN]
        message = f"annotation {NETWORK_TOPOLOGY_HIGHEST_TIER} is {shown!r}: expected a number"
        _complain(situation, pod, message, asker)
    return NetworkTopologySpec(mode=chosen, highest_tier_allowed=highest)


def _complain(situation: GangSituation, pod: Pod, message: str, asker: Asker) -> None:
    warn(asker, situation.owner or pod, "InvalidAnnotation", message, now=situation.now)
