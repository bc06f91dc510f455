"""A job is let in only if the quotas of its namespace leave room for what it needs at least.

Otherwise its pods could not be created, and the job would hold a place in the queue for nothing.
Jobs that were let in and whose pods do not exist yet count too: the quota's own status shows only
what was created. (Volcano forgets them with the cycle that let them in.)
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.api.scheduling import PodGroupPhase
from stromboli.scheduling.accounts import Sums, add
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.plugins.api import Refusal, Vote
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.quotas import (
    Quota,
    asked_of_quotas,
    quotas_by_namespace,
    shown,
    used_by_pods,
)
from stromboli.scheduling.resources import readable
from stromboli.scheduling.session import Session

NAME: Final = "resourcequota"
NAMESPACE_QUOTA: Final = "NamespaceQuota"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Quotas:
    """Holds jobs to the quotas of their namespace."""

    name = NAME

    def __init__(self) -> None:
        self._session: Session | None = None
        self._quotas: dict[str, list[Quota]] | None = None
        self._coming: dict[JobKey, Sums] = {}
        """Of jobs that were let in, what their pods will use once they exist."""
        self._claimed: dict[str, Sums] = {}
        """The same, by namespace, with what this cycle let in."""
        self._let_in: list[Contender] = []

    def opened(self, session: Session) -> None:
        self._session, self._quotas = session, None
        for contender in self._let_in:
            add(self._claimed[contender.key[0]], _need(contender.job), -1)
        self._let_in.clear()
        for key in session.dirty:
            claimed = self._claimed.setdefault(key[0], {})
            add(claimed, self._coming.pop(key, {}), -1)
            job = session.jobs.get(key)
            if job is not None and (coming := _coming(job)):
                self._coming[key] = coming
                add(claimed, coming)

    def enqueueable(self, contender: Contender) -> Vote | Refusal:
        namespace = contender.key[0]
        need = _need(contender.job)
        claimed = self._claimed.get(namespace, {})
        for quota in self._of(namespace):
            names = [name for name in need if name in quota.hard]
            used = {name: quota.used.get(name, 0) + claimed.get(name, 0) for name in names}
            short_by = {
                name: over
                for name in names
                if (over := used[name] + need[name] - quota.hard[name]) > 0
            }
            if short_by:
                return _refusal(namespace, quota, need, used, short_by)
        return Vote.PERMIT

    def enqueued(self, contender: Contender) -> None:
        add(self._claimed.setdefault(contender.key[0], {}), _need(contender.job))
        self._let_in.append(contender)

    def _of(self, namespace: str) -> list[Quota]:
        if self._quotas is None:
            # Most cycles admit nobody; only those that do read the quotas.
            objects = self._session.objects(NAME) if self._session else {}
            self._quotas = quotas_by_namespace(objects)
        return self._quotas.get(namespace, [])


def _need(job: Job) -> dict[str, int]:
    """With the names that only quotas know, such as `limits.cpu` and `count/pods`."""
    return asked_of_quotas(job.pod_group.spec.min_resources) if job.pod_group else {}


def _coming(job: Job) -> Sums:
    """What a job that was let in needs at least, less what its pods are counted for already."""
    if job.phase != PodGroupPhase.INQUEUE:
        return {}
    exists = used_by_pods(job.requested)
    # How much the pods have of what is no request, nobody has told us: all or nothing.
    coming = {
        name: units - exists.get(name, 0 if not job.tasks else units)
        for name, units in _need(job).items()
    }
    return {name: units for name, units in coming.items() if units > 0}


def _refusal(
    namespace: str,
    quota: Quota,
    need: Mapping[str, int],
    used: Mapping[str, int],
    short_by: Mapping[str, int],
) -> Refusal:
    names = sorted(short_by)
    wanted = {name: need[name] for name in names}
    taken = {name: used[name] for name in names}
    limit = {name: quota.hard[name] for name in names}
    short = tuple(sorted(short_by.items()))
    return Refusal(
        "NotEnoughResources",
        f"resource quota insufficient, requested: {shown(wanted)}, "
        f"used: {shown(taken)}, limited: {shown(limit)}",
        short,
        NAMESPACE_QUOTA,
        f"quota {quota.name!r} of namespace {namespace!r} allows {shown(limit)}, "
        f"{shown(taken)} is used: short by {readable(short)}",
    )


def build(arguments: Mapping[str, Any]) -> Quotas:
    read_arguments(NAME, Args, arguments)
    return Quotas()
