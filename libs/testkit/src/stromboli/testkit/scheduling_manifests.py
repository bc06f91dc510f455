"""The objects of a scheduling scenario, as the manifests that a person would write for them.

Only what a scenario says is written down: uids, creation times and the states of queues are
left to whoever reads the manifests.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import yaml

from stromboli.api.kinds import (
    HYPER_NODE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_QUOTA,
    VC_POD_GROUP,
    Kind,
    by_gvk,
)
from stromboli.api.wellknown import GROUP_NAME, PREEMPTABLE, TASK_SPEC
from stromboli.scheduling.conf import FLAG_NAMES

__all__ = ["NAMESPACE", "Manifest", "Scenario", "conf_of", "manifests_of", "yaml_of"]

Scenario: TypeAlias = Mapping[str, Any]
Manifest: TypeAlias = dict[str, Any]

NAMESPACE: Final = "test"

_LONG_AGO: Final = "2030-01-01T00:00:00Z"
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SHORT: Final = {
    name.removeprefix("enabled").removeprefix("enable")[0].lower()
    + name.removeprefix("enabled").removeprefix("enable")[1:]: name
    for name in FLAG_NAMES
}
"""`jobOrder` for `enableJobOrder`."""


def conf_of(scenario: Scenario) -> str:
    """The scheduler's configuration file."""
    tiers = [{"plugins": [_plugin(one) for one in tier]} for tier in scenario["tiers"]]
    document = {"actions": scenario["actions"], "tiers": tiers}
    if "configurations" in scenario:
        document["configurations"] = scenario["configurations"]
    return yaml_of(document)


def yaml_of(*documents: Manifest) -> str:
    return yaml.dump_all(documents, Dumper=_DUMPER, sort_keys=False)


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


def manifests_of(given: Scenario) -> Iterator[Manifest]:
    """Everything that the scenario, or a step of it, says is there."""
    for name, value in given.get("classes", {}).items():
        yield _make(PRIORITY_CLASS, {"name": name}, value=value)
    for name, said in given.get("queues", {}).items():
        yield _queue(name, dict(said or {}))
    for name, said in given.get("nodes", {}).items():
        yield _node(name, dict(said))
    for name, said in given.get("hypernodes", {}).items():
        yield _hyper_node(name, dict(said))
    for name, said in given.get("budgets", {}).items():
        yield _make(POD_DISRUPTION_BUDGET, {"name": name, "namespace": NAMESPACE}, **said)
    for name, said in given.get("quotas", {}).items():
        quota = {"namespace": NAMESPACE, **said}
        yield _make(RESOURCE_QUOTA, {"name": name, "namespace": quota.pop("namespace")}, **quota)
    yield from map(_placed, given.get("objects", ()))
    for name, said in given.get("groups", {}).items():
        group = dict(said)
        pods = group.pop("pods", {})
        yield _group(name, group)
        where = {"namespace": said.get("namespace", NAMESPACE)}
        for pod_name, pod in pods.items():
            for each in _names(pod_name, dict(pod or {})):
                yield _pod(each, name, {**where, **(pod or {})})


def _make(kind: Kind[Any], metadata: Manifest, **rest: Any) -> Manifest:
    told = {key: value for key, value in metadata.items() if value}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": told, **rest}


def _placed(said: Mapping[str, Any]) -> Manifest:
    kind = by_gvk(said["apiVersion"], said["kind"])
    where = {"namespace": NAMESPACE} if kind.namespaced else {}
    return {**said, "metadata": {**where, **said["metadata"]}}


def _names(name: str, said: dict[str, Any]) -> list[str]:
    """`count: 2` makes `name-0` and `name-1`."""
    return [f"{name}-{number}" for number in range(said["count"])] if "count" in said else [name]


def _queue(name: str, said: dict[str, Any]) -> Manifest:
    metadata = {"name": name, "annotations": said.pop("annotations", {})}
    status = {"status": {"state": said.pop("state")}} if "state" in said else {}
    if "guarantee" in said:
        said["guarantee"] = {"resource": said["guarantee"]}
    return _make(QUEUE, metadata, spec={"weight": 1, **said}, **status)


def _node(name: str, said: dict[str, Any]) -> Manifest:
    metadata = {"name": name, "labels": said.pop("labels", {})}
    spec = {key: said.pop(key) for key in ("taints", "unschedulable") if key in said}
    return _make(NODE, metadata, spec=spec, status={"allocatable": {"pods": 10, **said}})


def _hyper_node(name: str, said: dict[str, Any]) -> Manifest:
    members = [
        {"type": kind, "selector": {"exactMatch": {"name": each}}}
        for kind, key in (("Node", "nodes"), ("HyperNode", "hypernodes"))
        for each in said.pop(key, ())
    ]
    return _make(HYPER_NODE, {"name": name}, spec={"members": members, **said})


def _group(name: str, said: dict[str, Any]) -> Manifest:
    metadata = {
        "name": name,
        "namespace": said.pop("namespace", NAMESPACE),
        "annotations": said.pop("annotations", {}),
        "creationTimestamp": said.pop("created", ""),
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
    return _make(VC_POD_GROUP, metadata, spec=spec, status=status)


def _pod(name: str, group: str, said: dict[str, Any]) -> Manifest:
    """`node` and `phase` say where it runs; `preemptable` is a label, as in Volcano's tests."""
    said.pop("count", None)
    labels = dict(said.pop("labels", {}))
    if "role" in said:
        labels[TASK_SPEC] = said.pop("role")
    if "preemptable" in said:
        labels[PREEMPTABLE] = str(said.pop("preemptable")).lower()
    asked = {"cpu": 1, "memory": "1G", **said.pop("asks", {})}
    asked |= {resource: said.pop(resource) for resource in ("cpu", "memory") if resource in said}
    asked = {key: value for key, value in asked.items() if value not in (0, "0")}
    status = {
        key: said.pop(word)
        for word, key in (
            ("phase", "phase"),
            ("conditions", "conditions"),
            ("started", "startTime"),
        )
        if word in said
    }
    metadata = {
        "name": name,
        "namespace": said.pop("namespace", NAMESPACE),
        "labels": labels,
        "annotations": {GROUP_NAME: group, **said.pop("annotations", {})},
        "deletionTimestamp": _LONG_AGO if said.pop("ending", False) else "",
    }
    on = {"nodeName": said.pop("node")} if "node" in said else {}
    containers = [{"name": "main", "resources": {"requests": asked}}]
    return _make(POD, metadata, spec={**on, "containers": containers, **said}, status=status)
