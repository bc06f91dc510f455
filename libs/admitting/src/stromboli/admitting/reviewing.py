"""The eleven paths, and the one function that answers a review.

`review` is total: whatever JSON the object is made of, the answer is a verdict. Who calls it
does what needs waiting first: `queues_named` says which queues the verdict hangs on, so that
one that is not in the view can be looked up before it is called missing.
"""

from collections.abc import Mapping
from typing import Any, Final

from stromboli.admitting import cronjobs, flows, hypernodes, podgroups, pods
from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.jobs import creating, defaults, policies, updating, warnings
from stromboli.admitting.jobs import deciding as jobs
from stromboli.admitting.paths import CREATE, DELETE, UPDATE, Path
from stromboli.admitting.questions import (
    ALLOWED,
    Resource,
    Review,
    Surroundings,
    UserInfo,
    Verdict,
)
from stromboli.admitting.queues import deciding as queues
from stromboli.admitting.queues import defaults as queue_defaults
from stromboli.admitting.queues import deleting, shares, tree
from stromboli.admitting.reading import Refusal
from stromboli.admitting.rules import Rule, refused

__all__ = [
    "ALLOWED",
    "PATHS",
    "AdmissionConf",
    "Path",
    "Review",
    "Surroundings",
    "UserInfo",
    "Verdict",
    "queues_named",
    "review",
]

_JOBS: Final = Resource(group="batch.volcano.sh", version="v1alpha1", resource="jobs")
_CRON_JOBS: Final = Resource(group="batch.volcano.sh", version="v1alpha1", resource="cronjobs")
_QUEUES: Final = Resource(group="scheduling.volcano.sh", version="v1beta1", resource="queues")
_GROUPS: Final = Resource(group="scheduling.volcano.sh", version="v1beta1", resource="podgroups")
_PODS: Final = Resource(group="", version="v1", resource="pods")
_HYPER: Final = Resource(group="topology.volcano.sh", version="v1alpha1", resource="hypernodes")
_FLOWS: Final = Resource(group="flow.volcano.sh", version="v1alpha1", resource="jobflows")

_JOB_CREATION: Final[tuple[Rule[Any], ...]] = (
    *creating.FIRST_RULES,
    *creating.TASK_RULES,
    *policies.POLICY_RULES,
    policies.any_alone,
    *creating.JOB_RULES,
)
_QUEUE_RULES: Final[tuple[Rule[Any], ...]] = (*shares.SHARE_RULES, *tree.TREE_RULES)


def _no_queues(_: Review) -> set[str]:
    return set()


_ALL: Final = (
    Path(
        "/jobs/mutate", "mutatejob.volcano.sh", _JOBS, "Job", (CREATE,),
        jobs.mutate, _no_queues, defaults=defaults.DEFAULTS,
    ),
    Path(
        "/jobs/validate", "validatejob.volcano.sh", _JOBS, "Job", (CREATE, UPDATE),
        jobs.validate, jobs.queues_named,
        rules={CREATE: _JOB_CREATION, UPDATE: updating.UPDATE_RULES},
        warnings=warnings.WARNING_RULES,
    ),
    Path(
        "/queues/mutate", "mutatequeue.volcano.sh", _QUEUES, "Queue", (CREATE,),
        queues.mutate, _no_queues, defaults=queue_defaults.DEFAULTS,
    ),
    Path(
        "/queues/validate", "validatequeue.volcano.sh", _QUEUES, "Queue",
        (CREATE, UPDATE, DELETE), queues.validate, queues.queues_named,
        rules={CREATE: _QUEUE_RULES, UPDATE: _QUEUE_RULES, DELETE: deleting.DELETE_RULES},
    ),
    Path(
        "/podgroups/mutate", "mutatepodgroup.volcano.sh", _GROUPS, "PodGroup", (CREATE,),
        podgroups.mutate, _no_queues, defaults=podgroups.DEFAULTS,
    ),
    Path(
        "/podgroups/validate", "validatepodgroup.volcano.sh", _GROUPS, "PodGroup",
        (CREATE, UPDATE), podgroups.validate, podgroups.queues_named,
        rules={CREATE: podgroups.RULES, UPDATE: podgroups.RULES},
    ),
    Path(
        "/pods/mutate", "mutatepod.volcano.sh", _PODS, "Pod", (CREATE,),
        pods.mutate, _no_queues, defaults=pods.DEFAULTS,
    ),
    Path(
        "/pods/validate", "validatepod.volcano.sh", _PODS, "Pod", (CREATE,),
        pods.validate, pods.queues_named, rules={CREATE: pods.RULES},
    ),
    Path(
        "/hypernodes/validate", "validatehypernodes.volcano.sh", _HYPER, "HyperNode",
        (CREATE, UPDATE), hypernodes.validate, _no_queues,
        rules={CREATE: hypernodes.RULES, UPDATE: hypernodes.RULES},
    ),
    Path(
        "/cronjobs/validate", "validatecronjob.volcano.sh", _CRON_JOBS, "CronJob",
        (CREATE, UPDATE), cronjobs.validate, cronjobs.queues_named,
        rules={
            CREATE: (*cronjobs.RULES, cronjobs.TEMPLATE_RULE),
            UPDATE: (*cronjobs.RULES, cronjobs.TEMPLATE_RULE),
        },
    ),
    Path(
        "/jobflows/validate", "validatejobflow.volcano.sh", _FLOWS, "JobFlow",
        (CREATE, UPDATE), flows.validate, _no_queues,
        rules={CREATE: flows.RULES, UPDATE: flows.RULES},
    ),
)  # fmt: skip

PATHS: Final[Mapping[str, Path]] = {each.path: each for each in _ALL}
"""Every path that a webhook configuration may name."""

_TOO_DEEP: Final = refused("readable", "the object is nested too deeply to be read")
_TOO_LARGE: Final = refused("readable", "an integer in the object has more than 64 bits")


def queues_named(path: str, request: Review) -> set[str]:
    """The queues that the verdict hangs on; none for what can't be read."""
    found = PATHS.get(path)
    if found is None or request.sub_resource:
        return set()
    try:
        return found.queues_named(request)
    except (Refusal, RecursionError):
        return set()


def review(path: str, request: Review, surroundings: Surroundings, conf: AdmissionConf) -> Verdict:
    """The verdict on a request that came to `path`."""
    found = PATHS.get(path)
    if found is None:
        return refused("path-known", f"no admission is registered for the path {path[:64]!r}")
    if _is_other(request.resource, found.resource):
        wanted = found.resource
        return refused(
            "resource-expected",
            f"expect resource to be {wanted.group}/{wanted.version}, Resource={wanted.resource}",
        )
    if request.sub_resource:
        return ALLOWED
    if request.operation not in found.operations:
        return refused("operation-expected", _unexpected(request.operation, found.operations))
    try:
        return found.decide(request, surroundings, conf)
    except Refusal as refusal:
        return refusal.verdict
    except RecursionError:
        return _TOO_DEEP
    except OverflowError:
        return _TOO_LARGE


def _is_other(asked: Resource, wanted: Resource) -> bool:
    """A caller that names no resource, as a dry run may, is taken at its path's word."""
    return bool(asked.resource) and asked != wanted


def _unexpected(operation: str, expected: tuple[str, ...]) -> str:
    names = [f"`{name}`" for name in expected]
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"invalid operation `{operation[:64]}`, expect operation to be {joined}"
