"""What must hold of placements, whatever was killed: told by the API server, not by us.

Its audit log has every bind that was asked for; a witness has every version of every pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from stromboli.api.quantity import parse_quantity
from stromboli.testkit.installations import AuditLine
from stromboli.testkit.witness import Version, Witness

__all__ = ["bound_at_most_once", "never_overcommitted"]


def bound_at_most_once(audit: Iterable[AuditLine], witness: Witness) -> None:
    """No pod was bound twice, nor was it ever asked to go to two nodes."""
    asked: defaultdict[str, set[str]] = defaultdict(set)
    bound: defaultdict[str, int] = defaultdict(int)
    for line in audit:
        if (line.resource, line.subresource, line.verb) != ("pods", "binding", "create"):
            continue
        if line.uid and line.node:
            asked[line.uid].add(line.node)
        bound[line.uid] += line.code == 201
    torn = {uid: nodes for uid, nodes in asked.items() if len(nodes) > 1}
    repeated = {uid: count for uid, count in bound.items() if count > 1}
    moved = {name for name in {v.name for v in witness.versions} if _has_moved(witness.of(name))}

    assert not torn, f"pods that were asked to go to more than one node: {torn}"
    assert not repeated, f"pods that were bound more than once: {repeated}"
    assert not moved, f"pods that went from one node to another: {moved}"


def _has_moved(versions: list[Version]) -> bool:
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for version in versions:
        if version.node:
            nodes[version.uid].add(version.node)
    return any(len(of_uid) > 1 for of_uid in nodes.values())


def never_overcommitted(witness: Witness, nodes: Iterable[Mapping[str, Any]]) -> None:
    """At no moment did the pods on a node ask for more than it has."""
    room = {node["metadata"]["name"]: _amounts(node["status"]["allocatable"]) for node in nodes}
    on_node: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for version in sorted(witness.versions, key=lambda v: v.resource_version):
        if not version.node:
            continue
        pods = on_node[version.node]
        ended = version.object.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if version.deleted or ended:
            pods.pop(version.uid, None)
            continue
        pods[version.uid] = _requests(version.object)
        _check(version.node, pods.values(), room[version.node], version)


def _check(
    node: str, pods: Iterable[Mapping[str, int]], room: Mapping[str, int], version: Version
) -> None:
    used: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        for resource, amount in pod.items():
            used[resource] += amount
    over = {r: (amount, room.get(r, 0)) for r, amount in used.items() if amount > room.get(r, 0)}

    assert not over, f"{node} had more than it can hold when {version.name} came: {over}"


def _requests(pod: Mapping[str, Any]) -> dict[str, int]:
    total: defaultdict[str, int] = defaultdict(int)
    for container in pod["spec"]["containers"]:
        for resource, amount in _amounts(container.get("resources", {}).get("requests")).items():
            total[resource] += amount
    return dict(total)


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """In thousandths, which is as fine as a quantity is."""
    return {name: parse_quantity(text).milli_value() for name, text in (quantities or {}).items()}
