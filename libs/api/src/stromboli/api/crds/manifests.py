"""The CRDs we ship: what each adds to its kind for `kubectl get`, and how it is written.

Volcano's, name for name: the same columns, short names and subresources, so that a cluster
that has Volcano's CRDs can take ours in their place, and back.
"""

from dataclasses import dataclass
from typing import Any, Final

import yaml

from stromboli.api.crds.schema import Schema, schema_of
from stromboli.api.kinds import (
    COMMAND,
    HYPER_NODE,
    JOB_FLOW,
    JOB_TEMPLATE,
    QUEUE,
    VC_CRON_JOB,
    VC_JOB,
    VC_POD_GROUP,
    Kind,
)

__all__ = ["CRDS", "Column", "Crd", "manifest", "manifests"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; one with a priority is shown with `-o wide` only."""

    name: str
    type: str
    json_path: str
    priority: int = 0

    def as_manifest(self) -> dict[str, Any]:
        shown = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return shown | {"priority": self.priority} if self.priority else shown


@dataclass(frozen=True, slots=True)
class Crd:
    kind: Kind[Any]
    columns: tuple[Column, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind.plural}.{self.kind.group}"

    @property
    def file_name(self) -> str:
        return f"{self.kind.group}_{self.kind.plural}.yaml"


_AGE: Final = Column("AGE", "date", ".metadata.creationTimestamp")

CRDS: Final = (
    Crd(
        VC_JOB,
        (
            Column("STATUS", "string", ".status.state.phase"),
            Column("minAvailable", "integer", ".status.minAvailable"),
            Column("RUNNINGS", "integer", ".status.running"),
            _AGE,
            Column("QUEUE", "string", ".spec.queue", priority=1),
        ),
    ),
    Crd(
        VC_POD_GROUP,
        (
            Column("STATUS", "string", ".status.phase"),
            Column("minMember", "integer", ".spec.minMember"),
            Column("RUNNINGS", "integer", ".status.running"),
            _AGE,
            Column("QUEUE", "string", ".spec.queue", priority=1),
        ),
    ),
    Crd(QUEUE, (Column("PARENT", "string", ".spec.parent"),)),
    Crd(COMMAND),
    Crd(VC_CRON_JOB),
    Crd(
        JOB_FLOW,
        (
            Column("Status", "string", ".status.state.phase"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
    ),
    Crd(JOB_TEMPLATE),
    Crd(
        HYPER_NODE,
        (
            Column("Tier", "string", ".spec.tier"),
            Column("TierName", "string", ".spec.tierName"),
            Column("NodeCount", "integer", ".status.nodeCount"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
    ),
)

_HEADER: Final = """\
# Generated from the types in libs/api; do not edit.
# After changing a type: python -m stromboli.api.crds --write deploy/crds
"""


def manifest(crd: Crd) -> Schema:
    """The CustomResourceDefinition as an object."""
    kind = crd.kind
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": kind.list_kind,
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    version: dict[str, Any] = {"name": kind.version, "served": True, "storage": True}
    if kind.status_subresource:
        version["subresources"] = {"status": {}}
    if crd.columns:
        version["additionalPrinterColumns"] = [column.as_manifest() for column in crd.columns]
    version["schema"] = {"openAPIV3Schema": schema_of(kind.type)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": crd.name,
            # Removing the chart must not remove every job of the cluster.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def manifests() -> dict[str, str]:
    """The text of every CRD file, by file name."""
    return {crd.file_name: _HEADER + _yaml(manifest(crd)) for crd in CRDS}


class _Plain(yaml.SafeDumper):
    """Writes a part that occurs twice twice: anchors are for machines."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the hook's signature
        return True


def _yaml(document: Schema) -> str:
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=100, allow_unicode=True)
