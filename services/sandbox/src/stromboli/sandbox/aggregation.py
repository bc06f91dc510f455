"""Aggregated discovery: all groups, versions and resources in one document.

The same rows that plain discovery lists one group version at a time, with subresources below
their resource. A client that reads it asks twice at its start instead of once per group.
"""

from collections.abc import Callable, Mapping
from typing import Any

from stromboli.sandbox.documents import Document

__all__ = ["aggregated_groups"]


def aggregated_groups(
    groups: Mapping[str, Mapping[str, list[Document]]], order: Callable[[str], Any]
) -> Document:
    """The document for these groups; `order` sorts versions, the preferred one last."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": version,
                        "resources": _resources(name, version, versions[version]),
                        "freshness": "Current",
                    }
                    for version in sorted(versions, key=order, reverse=True)
                ],
            }
            for name, versions in groups.items()
        ],
    }


def _resources(group: str, version: str, rows: list[Document]) -> list[Document]:
    resources: dict[str, Document] = {}
    for row in sorted(rows, key=lambda one: one["name"]):
        plural, _, part = row["name"].partition("/")
        kind = {
            "group": row.get("group", group),
            "version": row.get("version", version),
            "kind": row["kind"],
        }
        if part:
            entry = {"subresource": part, "responseKind": kind, "verbs": row["verbs"]}
            resources[plural].setdefault("subresources", []).append(entry)
            continue
        resources[plural] = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if row["namespaced"] else "Cluster",
            "singularResource": row["singularName"],
            "verbs": row["verbs"],
            **{key: row[key] for key in ("shortNames", "categories") if key in row},
        }
    return list(resources.values())
