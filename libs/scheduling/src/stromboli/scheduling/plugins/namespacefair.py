"""Inside a queue, the namespace that has the smallest part of the cluster comes first.

A namespace stands for a user or a team. Its part counts by its weight, which is what any of its
ResourceQuotas has as `volcano.sh/namespace.weight` among its hard limits, and 1 otherwise, as
Volcano once had it. Only what a namespace has in the same queue counts.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stromboli.scheduling.accounts import Accounts
from stromboli.scheduling.jobs import Contender, Job
from stromboli.scheduling.plugins.api import SortKey
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.queue_gauges import Gauges
from stromboli.scheduling.quotas import weights
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.session import Session
from stromboli.scheduling.shares import dominant_share
from stromboli.scheduling.trial import Eviction, Placement

NAME: Final = "namespacefair"

_QUOTAS: Final = "resourcequota"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class NamespaceFair:
    """Orders jobs by what their namespaces have."""

    name = NAME

    def __init__(self) -> None:
        self._accounts = Accounts()
        self._total: dict[str, int] | None = None
        self._weights: dict[str, int] = {}
        self._shares: dict[str, float] = {}

    def opened(self, session: Session) -> None:
        if session.nodes_changed or self._total is None:
            self._total = session.totals()[0]
        self._weights = weights(session.objects(_QUOTAS))

        def corner_of(job: Job) -> str:
            return _corner(session.queue_of(job), job.key[0])

        self._accounts.rebase(session, corner_of)
        self._shares.clear()

    # What namespaces have.

    def share(self, queue: str, namespace: str) -> float:
        """By weight."""
        corner = _corner(queue, namespace)
        known = self._shares.get(corner)
        if known is None:
            part = dominant_share(self._accounts.allocated(corner), self._total or {})
            known = self._shares[corner] = part / self._weights.get(namespace, 1)
        return known

    def placed(self, placement: Placement) -> None:
        self._move(placement.contender, placement.kind.request, len(placement.tasks))

    def withdrawn(self, placement: Placement) -> None:
        self._move(placement.contender, placement.kind.request, -len(placement.tasks))

    def evicted(self, eviction: Eviction) -> None:
        self._move(eviction.contender, eviction.task.kind.request, -1)

    def restored(self, eviction: Eviction) -> None:
        self._move(eviction.contender, eviction.task.kind.request, 1)

    def _move(self, contender: Contender, request: Amounts, count: int) -> None:
        corner = _corner(contender.queue, contender.key[0])
        self._accounts.place(corner, request, count)
        self._shares.pop(corner, None)

    # Opinions.

    def job_order(self, contender: Contender) -> SortKey:
        return (self.share(contender.queue, contender.key[0]),)

    def gauges(self) -> Gauges:
        """Volcano's metrics of namespaces, summed over their queues."""
        found: Gauges = {}
        for corner in self._accounts.queues:
            queue, namespace = corner.split("/", 1)
            label = (("namespace_name", namespace),)
            weighted = self.share(queue, namespace)
            weight = self._weights.get(namespace, 1)
            found["namespace_weight", label] = weight
            for name, value in (("share", weighted * weight), ("weighted_share", weighted)):
                key = (f"namespace_{name}", label)
                found[key] = found.get(key, 0.0) + value
        return found


def _corner(queue: str, namespace: str) -> str:
    """What a namespace has in one queue; neither name contains a slash."""
    return f"{queue}/{namespace}"


def build(arguments: Mapping[str, Any]) -> NamespaceFair:
    read_arguments(NAME, Args, arguments)
    return NamespaceFair()
