"""What the server can do, for clients that ask: versions, groups, resources, OpenAPI.

Documents are built from the catalogue and kept until it changes: those of discovery all at once,
those of OpenAPI, which are large, when they are asked for. Aggregated discovery is the same
facts about all groups in one document.
"""

from typing import Final

from stromboli.sandbox.aggregation import aggregated_groups
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.documents import Document, encode
from stromboli.sandbox.openapi import group_version_path, v2_document, v3_document
from stromboli.sandbox.resources import Served
from stromboli.sandbox.reviews import REVIEWS

__all__ = ["AGGREGATED", "KUBE_VERSION", "Discovery"]

KUBE_VERSION: Final = "v1.35.8"
"""The server whose behaviour this one is held to."""

AGGREGATED: Final = frozenset({"APIGroupDiscoveryList.v2.apidiscovery.k8s.io"})
"""What an Accept header may ask for at /api and /apis."""
_OPENAPI_V3: Final = "/openapi/v3"

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
        self._aggregated: dict[str, bytes] = {}

    def aggregated(self, path: str) -> bytes | None:
        """The document at a path for clients that want to know all of it at once."""
        self._follow()
        return self._aggregated.get(path)

    def document(self, path: str) -> bytes | None:
        """The document at a path, if there is one."""
        self._follow()
        if path.startswith("/openapi/") and path not in self._documents:
            self._describe(path)
        return self._documents.get(path)

    def _describe(self, path: str) -> None:
        rows: dict[str, list[Served]] = {}
        for served in self._catalogue.all():
            rows.setdefault(group_version_path(served), []).append(served)
        made: Document | None = None
        if path == "/openapi/v2":
            made = v2_document(self._catalogue.all())
        elif path == _OPENAPI_V3:
            made = {"paths": {key: {"serverRelativeURL": f"{path}/{key}"} for key in rows}}
        elif (wanted := path.removeprefix(f"{_OPENAPI_V3}/")) in rows:
            made = v3_document(rows[wanted])
        if made is not None:
            self._documents[path] = encode(made)

    def _follow(self) -> None:
        if self._edition != self._catalogue.edition:
            self._edition = self._catalogue.edition
            groups = self._groups()
            self._documents = self._built(groups)
            self._aggregated = {
                "/api": encode(aggregated_groups({"": groups[""]}, _maturity)),
                "/apis": encode(
                    aggregated_groups({name: groups[name] for name in groups if name}, _maturity)
                ),
            }

    def _groups(self) -> dict[str, dict[str, list[Document]]]:
        """Every group's versions, each with the rows of its resources."""
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
        return groups

    def _built(self, groups: dict[str, dict[str, list[Document]]]) -> dict[str, bytes]:
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
