"""Scheduling scenarios as data: a small cluster, a configuration, and what must come of it.

A scenario is a mapping, as in tests/conformance/scheduling/*.yaml:

    id, says          its name and a sentence
    actions, tiers    the configuration; of each plugin only the listed points are on ("all": all)
    nodes, queues, classes, budgets     by name; amounts as in Kubernetes
    hypernodes        by name: tier, tierName, and as members `nodes` and `hypernodes` by name
    objects           anything else, as manifests; of the namespace `test` unless they say another
    groups            by name: min, queue, phase, class, tasks (per-task minimums), pods by name
    after             what happens next, step by step: {advance: seconds}, {end_pods: true},
                      {run: [pods]}, {finish: [pods]}, {add: {nodes:, groups:, ...}}
    expect            binds, evicts, pipelined, phases, codes; what is not named is not checked.
                      `evicts_any` and `binds_any` list sets of which one must be right;
                      `bound_count` counts the binds of each group; `sentences` are parts of
                      explanations, by group

Queues named by groups are made when they are not listed. Pods have cpu 1 and memory 1G unless
said. Creation times are equal, so ties fall to names, as in Volcano's own tests.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec.structs import replace

from stromboli.api.core import (
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
)
from stromboli.api.kinds import by_gvk
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.api.topology import HyperNode
from stromboli.api.wellknown import GROUP_NAME, TASK_SPEC
from stromboli.scheduling.conf import FLAG_NAMES
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.simulation import Simulation

__all__ = ["check", "conf_of", "objects_of", "read_scenarios", "simulate"]

Scenario = Mapping[str, Any]

_NAMESPACE: Final = "test"
_CREATED: Final = "2030-01-01T00:00:00Z"
_SHORT: Final = {
    name.removeprefix("enabled").removeprefix("enable")[0].lower()
    + name.removeprefix("enabled").removeprefix("enable")[1:]: name
    for name in FLAG_NAMES
}
"""`jobOrder` for `enableJobOrder`."""


def read_scenarios(folder: Path) -> Iterator[Scenario]:
    """Every scenario of every file; what stands beside `scenarios` holds for all in the file."""
    for path in sorted(folder.glob("*.yaml")):
        document: dict[str, Any] = yaml.safe_load(path.read_text())
        scenarios = document.pop("scenarios", ())
        for scenario in scenarios:
            yield {**document, **scenario, "file": path.stem}


def conf_of(scenario: Scenario) -> str:
    """The configuration file."""
    tiers = [{"plugins": [_plugin(one) for one in tier]} for tier in scenario["tiers"]]
    document = {"actions": scenario["actions"], "tiers": tiers}
    if "configurations" in scenario:
        document["configurations"] = scenario["configurations"]
    return yaml.safe_dump(document)


def _plugin(given: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(given, str):
        return {"name": given}
    ((name, said),) = given.items()
    points = said if isinstance(said, list) else said.get("points", "all")
    arguments = {} if isinstance(said, list) else said.get("arguments", {})
    plugin: dict[str, Any] = {"name": name, "arguments": arguments}
    if points != "all":
        on = {_SHORT[point] for point in points}
        plugin |= {flag: flag in on for flag in FLAG_NAMES}
    return plugin


def simulate(scenario: Scenario) -> Simulation:
    core = SchedulerCore(read_conf(conf_of(scenario)))
    simulation = Simulation(core, lingering=not scenario.get("evicted_are_gone", False))
    for item in objects_of(scenario):
        simulation.put(item)
    simulation.run()
    for step in scenario.get("after", ()):
        for what, detail in step.items():
            _STEPS[what](simulation, detail)
        simulation.run()
    return simulation


# Objects.


def objects_of(scenario: Scenario) -> Iterator[KubeObject]:
    """Everything that is there at the beginning."""
    queues = {group.get("queue", "default"): {} for group in scenario.get("groups", {}).values()}
    return _objects({**scenario, "queues": {**queues, **scenario.get("queues", {})}})


def _objects(given: Scenario) -> Iterator[KubeObject]:
    for name, value in given.get("classes", {}).items():
        yield _make(PriorityClass, {"metadata": {"name": name}, "value": value})
    for name, said in given.get("queues", {}).items():
        yield _queue(name, dict(said or {}))
    for name, said in given.get("nodes", {}).items():
        yield _node(name, dict(said))
    for name, said in given.get("hypernodes", {}).items():
        yield _hyper_node(name, dict(said))
    for name, said in given.get("budgets", {}).items():
        metadata = {"name": name, "namespace": _NAMESPACE}
        yield _make(PodDisruptionBudget, {"metadata": metadata, **said})
    for name, said in given.get("quotas", {}).items():
        quota = {"namespace": _NAMESPACE, **said}
        metadata = {"name": name, "namespace": quota.pop("namespace")}
        yield _make(ResourceQuota, {"metadata": metadata, **quota})
    yield from map(_manifest, given.get("objects", ()))
    for name, said in given.get("groups", {}).items():
        group = dict(said)
        pods = group.pop("pods", {})
        yield _group(name, group)
        where = {"namespace": said.get("namespace", _NAMESPACE)}
        for pod_name, pod in pods.items():
            for each in _names(pod_name, dict(pod or {})):
                yield _pod(each, name, {**where, **(pod or {})})


def _manifest(said: Mapping[str, Any]) -> KubeObject:
    kind = by_gvk(said["apiVersion"], said["kind"])
    metadata = {**({"namespace": _NAMESPACE} if kind.namespaced else {}), **said["metadata"]}
    return _make(kind.type, {**said, "metadata": metadata})


def _names(name: str, said: dict[str, Any]) -> list[str]:
    """`count: 2` makes `name-0` and `name-1`."""
    return [f"{name}-{number}" for number in range(said["count"])] if "count" in said else [name]


def _queue(name: str, said: dict[str, Any]) -> KubeObject:
    metadata = {"name": name, "annotations": said.pop("annotations", {})}
    state = said.pop("state", "Open")
    if "guarantee" in said:
        said["guarantee"] = {"resource": said["guarantee"]}
    return _make(
        Queue, {"metadata": metadata, "spec": {"weight": 1, **said}, "status": {"state": state}}
    )


def _node(name: str, said: dict[str, Any]) -> KubeObject:
    metadata = {"name": name, "labels": said.pop("labels", {})}
    spec = {key: said.pop(key) for key in ("taints", "unschedulable") if key in said}
    offered = {"pods": 10, **said}
    return _make(Node, {"metadata": metadata, "spec": spec, "status": {"allocatable": offered}})


def _hyper_node(name: str, said: dict[str, Any]) -> KubeObject:
    members = [
        {"type": kind, "selector": {"exactMatch": {"name": each}}}
        for kind, key in (("Node", "nodes"), ("HyperNode", "hypernodes"))
        for each in said.pop(key, ())
    ]
    return _make(HyperNode, {"metadata": {"name": name}, "spec": {"members": members, **said}})


def _group(name: str, said: dict[str, Any]) -> KubeObject:
    metadata = {
        "name": name,
        "namespace": said.pop("namespace", _NAMESPACE),
        "annotations": said.pop("annotations", {}),
        "creationTimestamp": said.pop("created", _CREATED),
    }
    status = {"phase": said.pop("phase", "Inqueue")}
    spec = {
        "minMember": said.pop("min", 1),
        "queue": said.pop("queue", "default"),
        "priorityClassName": said.pop("class", ""),
        "minTaskMember": said.pop("tasks", {}),
        "minResources": said.pop("needs", {}),
        **said,
    }
    return _make(PodGroup, {"metadata": metadata, "spec": spec, "status": status})


def _pod(name: str, group: str, said: dict[str, Any]) -> KubeObject:
    """`node` and `phase` say where it runs; `preemptable` is a label, as in Volcano's tests."""
    said.pop("count", None)
    labels = dict(said.pop("labels", {}))
    annotations = {GROUP_NAME: group, **said.pop("annotations", {})}
    if "role" in said:
        labels[TASK_SPEC] = said.pop("role")
    if "preemptable" in said:
        labels["volcano.sh/preemptable"] = str(said.pop("preemptable")).lower()
    on = said.pop("node", "")
    asked = {"cpu": 1, "memory": "1G", **said.pop("asks", {})}
    status: dict[str, Any] = {"phase": said.pop("phase", "Running" if on else "Pending")}
    if "conditions" in said:
        status["conditions"] = said.pop("conditions")
    if "started" in said:
        status["startTime"] = said.pop("started")
    for resource in ("cpu", "memory"):
        if resource in said:
            asked[resource] = said.pop(resource)
    asked = {key: value for key, value in asked.items() if value not in (0, "0")}
    metadata = {
        "name": name,
        "namespace": said.pop("namespace", _NAMESPACE),
        "labels": labels,
        "annotations": annotations,
    }
    if said.pop("ending", False):
        metadata["deletionTimestamp"] = _CREATED
    spec = {
        "schedulerName": "volcano",
        "nodeName": on,
        "containers": [{"name": "main", "resources": {"requests": asked}}],
        **said,
    }
    return _make(Pod, {"metadata": metadata, "spec": spec, "status": status})


def _make(type_: type[Any], manifest: dict[str, Any]) -> Any:
    metadata = manifest["metadata"]
    where = metadata.get("namespace", "")
    metadata.setdefault("uid", f"{where}-{metadata['name']}".strip("-"))
    metadata.setdefault("creationTimestamp", _CREATED)
    return msgspec.convert(manifest, type_)


# Steps.


def _set_phase(simulation: Simulation, names: list[str], phase: str) -> None:
    for name in names:
        pod = simulation.get("pod", _NAMESPACE, name)
        simulation.put(replace(pod, status=replace(pod.status, phase=phase)))


def _add(simulation: Simulation, detail: Scenario) -> None:
    for item in _objects(detail):
        simulation.put(item)


_STEPS: Final[Mapping[str, Callable[[Simulation, Any], None]]] = {
    "advance": lambda simulation, seconds: simulation.advance(seconds),
    "end_pods": lambda simulation, _: simulation.end_pods(),
    "run": lambda simulation, names: _set_phase(simulation, names, "Running"),
    "finish": lambda simulation, names: _set_phase(simulation, names, "Succeeded"),
    "add": _add,
}


# Expectations.


def check(scenario: Scenario, simulation: Simulation) -> None:
    expect = scenario["expect"]
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    binds = {name: node for (_, name), node in simulation.binds.items()}
    evicts = sorted(name for _, name in simulation.evictions)
    pipelined = {name: node for (_, name), node in core.pipelined.items()}
    groups = {
        name: item for (kind, _, name), item in simulation.objects.items() if kind == "vcpodgroup"
    }
    codes = {name: explanation.code.value for (_, name), explanation in core.explanations.items()}
    sentences = {name: explanation.text for (_, name), explanation in core.explanations.items()}
    found: dict[str, Any] = {
        "binds": binds,
        "evicts": evicts,
        "pipelined": pipelined,
        "phases": {name: group.status.phase for name, group in groups.items()},
        "codes": codes,
        "bound_count": {name: _bound(simulation, name) for name in groups},
    }
    for what, wanted in expect.items():
        match what:
            case "sentences":
                for name, part in wanted.items():
                    assert part in sentences[name], what
            case "phases" | "codes" | "bound_count":
                shown = {name: found[what].get(name) for name in wanted}
                assert shown == wanted, what
            case "evicts":
                assert evicts == sorted(wanted), what
            case "binds_any":
                assert binds in wanted, f"{binds} is none of {wanted}"
            case "evicts_any":
                assert evicts in [sorted(one) for one in wanted], f"{evicts} is none of {wanted}"
            case _:
                assert found[what] == wanted, what


def _bound(simulation: Simulation, group: str) -> int:
    pods = [item for (kind, _, _), item in simulation.objects.items() if kind == "pod"]
    return sum(
        bool(pod.spec.node_name)
        and pod.metadata.annotations.get(GROUP_NAME) == group
        and not pod.metadata.deletion_timestamp
        for pod in pods
    )
