"""What keeps a job from getting on, in plain words.

It stands in the job's status for as long as it lasts, and is told once as an event. Nothing
here gives up: what is refused today may be allowed tomorrow.
"""

from typing import Final

import msgspec

from stromboli.api import kinds
from stromboli.api.batch import Job
from stromboli.contracts.intents import Verb
from stromboli.contracts.outcomes import Reason, Refused
from stromboli.lifecycle.claims import CLAIM, named_claims
from stromboli.lifecycle.phases import total_replicas
from stromboli.lifecycle.plugins import Demanding, plugins_of, unknown_plugins
from stromboli.lifecycle.podgroups import admits_pods, queue_of
from stromboli.lifecycle.policies import unreadable_timeouts
from stromboli.lifecycle.situations import Situation

__all__ = ["MOST_PODS", "Trouble", "in_the_way", "no_place", "refused"]

MOST_PODS: Final = 100_000
"""More than a cluster has room for; the names alone would not fit into one ConfigMap."""

_BY_KIND: Final = {
    kinds.VC_POD_GROUP.token: "PodGroupError",
    CLAIM: "PVCError",
    **dict.fromkeys(
        (
            kinds.CONFIG_MAP.token,
            kinds.SERVICE.token,
            kinds.SECRET.token,
            kinds.NETWORK_POLICY.token,
        ),
        "PluginError",
    ),
    kinds.VC_JOB.token: "JobStatusError",
}
_PASSING: Final = frozenset({Reason.EXPIRED, Reason.FENCED})
"""These say that nobody got round to it; there is nothing for people to do about them."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is one word for programs, `message` a sentence for people."""

    reason: str = ""
    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


def in_the_way(situation: Situation) -> Trouble:
    """What must change before anything is made for the job; false if nothing must."""
    job = situation.job
    unknown = unknown_plugins(job)
    if unknown:
        return Trouble(reason="PluginError", message=f"failed to get plugin {', '.join(unknown)}")
    for plugin in plugins_of(job):
        lacking = plugin.lacks(job) if isinstance(plugin, Demanding) else ""
        if lacking:
            return Trouble(reason="PluginError", message=lacking)
    timeouts = unreadable_timeouts(job)
    if timeouts:
        return Trouble(
            reason="PolicyError",
            message=f"a policy's timeout is not a duration such as 10m or 1h30m: {timeouts[0]!r}",
        )
    if total_replicas(job) > MOST_PODS:
        return Trouble(reason="TooManyPods", message=f"a job has at most {MOST_PODS} pods")
    if not situation.queue_exists:
        return Trouble(reason="QueueNotFound", message=f"queue {queue_of(job)} does not exist")
    return _missing_claims(situation, job)


def _missing_claims(situation: Situation, job: Job) -> Trouble:
    if situation.claims is None:
        return Trouble()
    missing = [name for name in named_claims(job) if name not in situation.claims]
    if not missing:
        return Trouble()
    return Trouble(
        reason="PVCError",
        message=f"pvc {missing[0]} is not found, the job will be in the Pending state until the "
        "PVC is created",
    )


def no_place(situation: Situation) -> Trouble:
    """Whether something of the job waits that a queue which is shut does not start."""
    group = situation.group.object if situation.group is not None else None
    if not situation.shut or (admits_pods(group) and not _has_waiting_pods(situation)):
        return Trouble()
    queue = queue_of(situation.job)
    message = f"queue {queue} is {situation.shut} and starts no pods; the job goes on when it opens"
    return Trouble(reason="QueueNotOpen", message=message)


def _has_waiting_pods(situation: Situation) -> bool:
    return any(one.phase == "Pending" and not one.pod.spec.node_name for one in situation.members)


def refused(situation: Situation) -> Trouble:
    """What was asked for last time and refused."""
    refusal = situation.refusal
    if refusal is None or refusal.reason in _PASSING or refusal.kind == kinds.EVENT.token:
        return Trouble()
    if refusal.kind == kinds.POD.token:
        return _refused_pod(refusal)
    reason = _BY_KIND.get(refusal.kind, "FailedCreate")
    message = f"{_kind_name(refusal.kind)} {refusal.name} could not be {_DONE[refusal.verb]}"
    return Trouble(reason=reason, message=f"{message}: {refusal.message}")


_DONE: Final = {
    Verb.CREATE: "made",
    Verb.GENERATE: "made",
    Verb.PATCH: "brought up to date",
    Verb.DELETE: "deleted",
    Verb.EVICT: "evicted",
    Verb.BIND: "bound",
    Verb.FENCE: "reached",
}


def _refused_pod(refusal: Refused) -> Trouble:
    if refusal.verb is Verb.DELETE:
        return Trouble(
            reason="FailedDelete", message=f"Error deleting pods: {refusal.name}: {refusal.message}"
        )
    return Trouble(
        reason="FailedCreate", message=f"Error creating pods: {refusal.name}: {refusal.message}"
    )


def _kind_name(token: str) -> str:
    return kinds.by_token(token).kind
