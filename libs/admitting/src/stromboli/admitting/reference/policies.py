"""Static rules as ValidatingAdmissionPolicy, for clusters that prefer them to webhooks.

Only rules that look at nothing but the object have such a form. What needs the cluster, or a
walk through a graph, or a pod template, stays with the webhooks; both may be on at once.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from stromboli.admitting.paths import Path
from stromboli.admitting.reviewing import PATHS
from stromboli.admitting.rules import Rule

__all__ = ["policies", "policy_files"]

_HEADER: Final = """\
# Generated from admission's rules; do not edit.
# After changing a rule: python -m stromboli.admitting.reference --write .
"""
_OURS_ONLY: Final = {
    "name": "scheduled-by-us",
    "expression": "has(object.spec.schedulerName) && object.spec.schedulerName == 'volcano'",
}


def policies() -> dict[str, list[dict[str, Any]]]:
    """Per file, the manifests in it: policies and what binds them."""
    files: dict[str, list[dict[str, Any]]] = {}
    for path in PATHS.values():
        for operations, rules in _groups(path):
            name = f"stromboli-{path.resource.resource}-{'-'.join(operations).lower()}"
            manifests = [_policy(name, path, operations, rules), _binding(name)]
            files.setdefault(f"{path.resource.resource}.yaml", []).extend(manifests)
    return files


def policy_files() -> dict[str, str]:
    """The text of every file, by its name."""
    return {
        name: _HEADER + yaml.safe_dump_all(manifests, sort_keys=False, width=100)
        for name, manifests in policies().items()
    }


def _groups(path: Path) -> Iterator[tuple[tuple[str, ...], list[Rule[Any]]]]:
    """Operations that have the same rules share a policy."""
    groups: dict[tuple[str, ...], tuple[list[str], list[Rule[Any]]]] = {}
    for operation, table in path.rules.items():
        rules = [rule for rule in table if rule.cel is not None]
        if rules:
            names = tuple(rule.name for rule in rules)
            groups.setdefault(names, ([], rules))[0].append(operation)
    for operations, rules in groups.values():
        yield tuple(operations), rules


def _policy(
    name: str, path: Path, operations: tuple[str, ...], rules: list[Rule[Any]]
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [path.resource.group],
                    "apiVersions": [path.resource.version],
                    "operations": list(operations),
                    "resources": [path.resource.resource],
                }
            ]
        },
    }
    if path.kind == "Pod":
        spec["matchConditions"] = [_OURS_ONLY]
    spec["validations"] = [
        {"expression": _guarded(rule.cel.expression), "message": rule.cel.message}
        for rule in rules
        if rule.cel is not None
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def _guarded(expression: str) -> str:
    """True of objects without a spec, which CEL would stumble over, unless it asks for one."""
    if "object.spec" not in expression or expression.startswith("has(object.spec) &&"):
        return expression
    return f"!has(object.spec) || ({expression})"


def _binding(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
