"""What came of a scheduling scenario, and whether that is what it expects.

Whoever played it says what was found, on the core alone or through a bus; what is expected is
the same data in both cases.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api.wellknown import GROUP_NAME
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.outcome import outcome_of
from stromboli.testkit.scheduling_scenario import Scenario

__all__ = ["Findings", "Waiting", "check", "found_in"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Findings:
    """Pods and groups by name: scenarios give each name once."""

    binds: Mapping[str, str]
    evicts: Iterable[str]
    pipelined: Mapping[str, str]
    waiting: Mapping[str, Waiting]
    objects: Mapping[tuple[str, str, str], Any]

    def of_kind(self, token: str) -> dict[str, Any]:
        return {name: item for (kind, _, name), item in self.objects.items() if kind == token}

    @property
    def phases(self) -> dict[str, str]:
        return {name: group.status.phase for name, group in self.of_kind("vcpodgroup").items()}

    def bound_count(self, group: str) -> int:
        return sum(
            bool(pod.spec.node_name)
            and pod.metadata.annotations.get(GROUP_NAME) == group
            and not pod.metadata.deletion_timestamp
            for pod in self.of_kind("pod").values()
        )


def found_in(cluster: Cluster) -> Findings:
    """What `vcctl simulate` would print."""
    told = outcome_of(cluster)
    return Findings(
        binds={_name(key): node for key, node in told["binds"].items()},
        evicts=[_name(key) for key in told["evictions"]],
        pipelined={_name(key): node for key, node in told["pipelined"].items()},
        waiting={_name(key): _waiting(why) for key, why in told["explanations"].items()},
        objects=cluster.objects,
    )


def _name(key: str) -> str:
    return key.partition("/")[2]


def _waiting(why: Mapping[str, Any]) -> Waiting:
    text = f"{why['code']}: {why['sentence']}; it goes on when {why['unblock']}"
    return Waiting(why["code"], text)


def check(scenario: Scenario, found: Findings) -> None:
    """Raises AssertionError for the first expectation that does not hold."""
    for what, wanted in scenario["expect"].items():
        _CHECKS[what](found, wanted)


def _binds(found: Findings, wanted: Mapping[str, str]) -> None:
    assert found.binds == wanted


def _any_binds(found: Findings, wanted: list[Mapping[str, str]]) -> None:
    assert found.binds in wanted


def _evicts(found: Findings, wanted: list[str]) -> None:
    assert sorted(found.evicts) == sorted(wanted)


def _any_evicts(found: Findings, wanted: list[list[str]]) -> None:
    assert sorted(found.evicts) in [sorted(one) for one in wanted]


def _pipelined(found: Findings, wanted: Mapping[str, str]) -> None:
    assert found.pipelined == wanted


def _phases(found: Findings, wanted: Mapping[str, str]) -> None:
    assert {name: found.phases.get(name) for name in wanted} == wanted


def _codes(found: Findings, wanted: Mapping[str, str]) -> None:
    codes = {name: waiting.code for name, waiting in found.waiting.items()}
    assert {name: codes.get(name) for name in wanted} == wanted


def _sentences(found: Findings, wanted: Mapping[str, str]) -> None:
    for name, part in wanted.items():
        assert part in found.waiting[name].sentence


def _gated(found: Findings, wanted: list[str]) -> None:
    pods = found.of_kind("pod").items()
    assert sorted(name for name, pod in pods if pod.spec.scheduling_gates) == sorted(wanted)


def _bound_count(found: Findings, wanted: Mapping[str, int]) -> None:
    assert {name: found.bound_count(name) for name in wanted} == wanted


_CHECKS: Final[Mapping[str, Callable[[Findings, Any], None]]] = {
    "binds": _binds,
    "binds_any": _any_binds,
    "evicts": _evicts,
    "evicts_any": _any_evicts,
    "pipelined": _pipelined,
    "phases": _phases,
    "codes": _codes,
    "sentences": _sentences,
    "bound_count": _bound_count,
    "gated": _gated,
}
