"""Pod templates, good and bad, as rows of data: what core validation says about each.

The rows stand in tests/conformance/templates. Admission's rules and a real kube-apiserver are
asked about the same rows, so the one can't drift from the other unseen.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from stromboli.testkit.manifests import Manifest

__all__ = ["ROWS_FILE", "TemplateRow", "load_rows"]

ROWS_FILE: Final = (
    Path(__file__).parents[5] / "tests" / "conformance" / "templates" / "pod-templates.yaml"
)


class TemplateRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One template; `rule` names the row of admission's table that it belongs to."""

    case: str
    valid: bool
    rule: str = ""
    metadata: Manifest = msgspec.field(default_factory=dict[str, Any])
    spec: Manifest = msgspec.field(default_factory=dict[str, Any])
    container: Manifest = msgspec.field(default_factory=dict[str, Any])

    @property
    def template(self) -> Manifest:
        """The whole template: a pod of one container with the row laid over it."""
        container = {"name": "main", "image": "busybox", **self.container}
        return {"metadata": self.metadata, "spec": {"containers": [container], **self.spec}}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rows: tuple[TemplateRow, ...]


def load_rows(file: Path = ROWS_FILE) -> tuple[TemplateRow, ...]:
    rows = msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")), _File).rows
    if len({row.case for row in rows}) != len(rows):
        raise ValueError(f"rows in {file} must have names of their own")
    return rows
