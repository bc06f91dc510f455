"""Scheduling scenarios as data: a small cluster, a configuration, and what must come of it.

A scenario is a mapping, as in tests/conformance/scheduling/*.yaml:

    id, says          its name and a sentence
    actions, tiers    the configuration; of each plugin only the listed points are on ("all": all)
    nodes, queues, classes, budgets     by name; amounts as in Kubernetes
    hypernodes        by name: tier, tierName, and as members `nodes` and `hypernodes` by name
    objects           anything else, as manifests; of the namespace `test` unless they say another
    groups            by name: min, queue, phase, class, tasks (per-task minimums), pods by name
    cycles            how many cycles of the scheduler; 1 unless said, as in Volcano's own tests
    until             `idle`: instead, until nothing changes any more, kubelets and all
    after             what happens next, step by step, each until the cores come to rest:
                      {advance: seconds}, {end_pods: true}, {run: [pods]}, {finish: [pods]},
                      {ungate: [pods]}, {add: {nodes:, groups:, ...}}
    expect            binds, evicts, pipelined, phases, codes; what is not named is not checked.
                      `evicts_any` and `binds_any` list sets of which one must be right;
                      `bound_count` counts the binds of each group; `sentences` are parts of
                      explanations, by group; `gated` are the pods that gates still hold
    not_restarted     why another scheduler that takes over in the end would do more

Queues named by groups are made when they are not listed. Pods have cpu 1 and memory 1G unless
said. Creation times are equal, so ties fall to names, as in Volcano's own tests.

A scenario becomes the text of manifests and of a configuration file, and these go the way of
`vcctl simulate`; what is checked is the document that it prints.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import yaml
from msgspec.structs import replace

from stromboli.api.meta import KubeObject
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.conf_text import conf_from
from stromboli.simulating.manifests import Source, read_manifests
from stromboli.simulating.simulate import load, run_cycles, run_until_idle
from stromboli.simulating.store import Place, place_of
from stromboli.testkit.scheduling_manifests import (
    NAMESPACE,
    Scenario,
    conf_of,
    manifests_of,
    yaml_of,
)

__all__ = ["Scenario", "change", "files_of", "objects_of", "read_scenarios", "simulate"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_scenarios(folder: Path) -> Iterator[Scenario]:
    """Every scenario of every file; what stands beside `scenarios` holds for all in the file."""
    for path in sorted(folder.glob("*.yaml")):
        document: dict[str, Any] = yaml.load(path.read_text(), Loader=_LOADER)
        scenarios = document.pop("scenarios", ())
        for scenario in scenarios:
            yield {**document, **scenario, "file": path.stem}


def files_of(scenario: Scenario) -> tuple[str, str]:
    """The text of its manifests, and of its configuration."""
    return yaml_of(*manifests_of(_with_queues(scenario))), conf_of(scenario)


def objects_of(scenario: Scenario) -> Iterator[KubeObject]:
    """Everything that is there at the beginning, completed."""
    manifests = yaml_of(*manifests_of(_with_queues(scenario)))
    cluster, _ = load([Source("scenario", manifests)])
    return iter(cluster.objects.values())


def _with_queues(scenario: Scenario) -> Scenario:
    queues = {group.get("queue", "default"): {} for group in scenario.get("groups", {}).values()}
    return {**scenario, "queues": {**queues, **scenario.get("queues", {})}}


def simulate(scenario: Scenario) -> Cluster:
    manifests, conf = files_of(scenario)
    cluster, _ = load([Source(scenario["id"], manifests)], conf_from(Source("conf", conf)))
    if scenario.get("until") == "idle":
        run_until_idle(cluster)
    elif "after" in scenario:
        cluster.kubelets_work = False
        cluster.settle()
    else:
        run_cycles(cluster, scenario.get("cycles", 1))
    for step in scenario.get("after", ()):
        for what, detail in step.items():
            if what == "advance":
                cluster.advance_to(cluster.now + detail)
            else:
                change(cluster, what, detail)
        cluster.settle()
    return cluster


# Steps.


class Objects(Protocol):
    """Where the objects of a scenario are, whoever decides about them."""

    @property
    def objects(self) -> Mapping[Place, Any]: ...
    def put(self, item: KubeObject) -> object: ...
    def get(self, kind: str, namespace: str, name: str) -> Any: ...
    def end_leaving(self) -> None:
        """Those that were told to go are gone."""
        ...


def change(objects: Objects, what: str, detail: Any) -> None:
    """One thing of a step happens; letting time pass is the business of whoever keeps it."""
    _CHANGES[what](objects, detail)


def _set_phase(objects: Objects, names: list[str], phase: str) -> None:
    for name in names:
        pod = objects.get("pod", NAMESPACE, name)
        objects.put(replace(pod, status=replace(pod.status, phase=phase)))


def _ungate(objects: Objects, names: list[str]) -> None:
    for name in names:
        pod = objects.get("pod", NAMESPACE, name)
        objects.put(replace(pod, spec=replace(pod.spec, scheduling_gates=())))


def _add(objects: Objects, detail: Scenario) -> None:
    for _, item in read_manifests([Source("step", yaml_of(*manifests_of(detail)))]).given:
        before = objects.objects.get(place_of(item))
        uid = before.metadata.uid if before is not None else ""
        objects.put(replace(item, metadata=replace(item.metadata, uid=uid)))


_CHANGES: Final[Mapping[str, Callable[[Objects, Any], None]]] = {
    "end_pods": lambda objects, _: objects.end_leaving(),
    "run": lambda objects, names: _set_phase(objects, names, "Running"),
    "finish": lambda objects, names: _set_phase(objects, names, "Succeeded"),
    "ungate": _ungate,
    "add": _add,
}
