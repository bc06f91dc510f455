"""What the server can do, for clients that ask: versions, groups, resources.

Documents are built from the catalogue and kept until it changes. Aggregated discovery and
OpenAPI are not offered: clients that prefer them fall back to these documents.
"""

from typing import Final

from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.documents import Document, encode
from stromboli.sandbox.resources import Served
from stromboli.sandbox.reviews import REVIEWS

__all__ = ["KUBE_VERSION", "Discovery"]

KUBE_VERSION: Final = "v1.35.8"
"""The server whose behaviour this one is held to."""

_VERSION: Final = {
    "major": "1",
    "minor": "35",
    "gitVersion": f"{KUBE_VERSION}+stromboli-sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


class Discovery:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._edition = -1
        self._documents: dict[str, bytes] = {}

    def document(self, path: str) -> bytes | None:
        """The document at a path, if there is one."""
        if self._edition != self._catalogue.edition:
            self._edition = self._catalogue.edition
            self._documents = self._built()
        return self._documents.get(path)

    def _built(self) -> dict[str, bytes]:
        groups: dict[str, dict[str, list[Document]]] = {}
        for served in self._catalogue.all():
            versions = groups.setdefault(served.resource.group, {})
            versions.setdefault(served.version, []).extend(_entries(served))
        for (group, version, plural), kind in REVIEWS.items():
            entry: Document = {
                "name": plural,
                "singularName": kind.kind.lower(),
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["create"],
            }
            groups.setdefault(group, {}).setdefault(version, []).append(entry)
        documents: dict[str, Document] = {
            "/version": dict(_VERSION),
            "/api": {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            },
            "/apis": {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(name, groups[name]) for name in groups if name],
            },
        }
        for name, versions in groups.items():
            if name:
                documents[f"/apis/{name}"] = {
                    "kind": "APIGroup",
                    "apiVersion": "v1",
                    **_group(name, versions),
                }
            for version, entries in versions.items():
                path = f"/apis/{name}/{version}" if name else f"/api/{version}"
                documents[path] = {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": f"{name}/{version}" if name else version,
                    "resources": sorted(entries, key=lambda entry: entry["name"]),
                }
        return {path: encode(document) for path, document in documents.items()}


def _group(name: str, versions: dict[str, list[Document]]) -> Document:
    rows = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in sorted(versions, key=_maturity, reverse=True)
    ]
    return {"name": name, "versions": rows, "preferredVersion": rows[0]}


def _maturity(version: str) -> tuple[int, int, int]:
    """Kube's order of versions: v2 before v1, v1 before v1beta2, v1beta1 before v1alpha1."""
    head, stage = version.removeprefix("v"), 3
    for word, rank in (("alpha", 1), ("beta", 2)):
        if word in head:
            head, _, minor = head.partition(word)
            return (rank, _as_number(head), _as_number(minor))
    return (stage, _as_number(head), 0)


def _as_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _entries(served: Served) -> list[Document]:
    resource = served.resource
    main: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    rows = [main]
    for part in served.subresources:
        row: Document = {
            "name": f"{resource.plural}/{part.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": part.kind,
            "verbs": list(part.verbs),
        }
        if part.group:
            row["group"], row["version"] = part.group, part.version
        rows.append(row)
    return rows
