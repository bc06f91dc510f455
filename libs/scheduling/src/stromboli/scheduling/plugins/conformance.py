"""Pods that the cluster itself needs never make room for others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task

NAME: Final = "conformance"

_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_SYSTEM: Final = "kube-system"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class Conformance:
    """Takes critical pods off every list of victims."""

    name = NAME
    is_even_handed = True
    is_impartial = True
    protects = True
    judges_victims = True
    judges_by = "job"

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return _dispensable(candidates)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return _dispensable(candidates)

    def evictable(
        self, claim: Claim, candidates: Sequence[Task], *, reclaiming: bool
    ) -> Sequence[Task]:
        return _dispensable(candidates)


def _dispensable(candidates: Sequence[Task]) -> list[Task]:
    return [
        victim
        for victim in candidates
        if victim.class_name not in _CRITICAL and victim.namespace != _SYSTEM
    ]


def build(arguments: Mapping[str, Any]) -> Conformance:
    read_arguments(NAME, Args, arguments)
    return Conformance()
