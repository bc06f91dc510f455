"""managedFields: which manager set which fields, by apply or by changing them.

Only objects that were applied once carry it: whoever does not use apply does not pay for it.
Fields that an object had before belong to `before-first-apply`.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from stromboli.sandbox.apply.fieldsets import FieldSet, Path, fields_of, read_back, spelled
from stromboli.sandbox.apply.merging import value_at
from stromboli.sandbox.documents import Document, same_document
from stromboli.sandbox.shapes.shape import Shape

__all__ = ["APPLIED", "UPDATED", "Manager", "after_update", "listed", "managers_of"]

APPLIED: Final = "Apply"
UPDATED: Final = "Update"
_FIRST: Final = "before-first-apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    name: str
    operation: str
    api_version: str
    fields: FieldSet
    time: str
    subresource: str = ""

    def is_of(self, other: "Manager") -> bool:
        """True if both are entries of one manager, of which there is one at a time."""
        mine = (self.name, self.operation, self.subresource)
        return mine == (other.name, other.operation, other.subresource)


def managers_of(document: Document, shape: Shape) -> list[Manager]:
    """Who owns what; all of an object that was never applied is its past's."""
    meta = document["metadata"]
    entries: list[Document] | None = meta.get("managedFields")
    if entries is None:
        return [
            Manager(
                name=_FIRST,
                operation=UPDATED,
                api_version=document["apiVersion"],
                fields=fields_of(document, shape),
                time=meta.get("creationTimestamp", ""),
            )
        ]
    return [
        Manager(
            name=entry.get("manager", ""),
            operation=entry.get("operation", UPDATED),
            api_version=entry.get("apiVersion", ""),
            fields=frozenset(read_back(entry.get("fieldsV1"))),
            time=entry.get("time", ""),
            subresource=entry.get("subresource", ""),
        )
        for entry in entries
    ]


def listed(managers: list[Manager]) -> list[Document]:
    """The entries as objects carry them; whoever owns nothing is left out."""
    entries: list[Document] = []
    for manager in sorted(managers, key=lambda one: (one.operation, one.name)):
        if not manager.fields:
            continue
        entry: dict[str, Any] = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": manager.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": spelled(manager.fields),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def after_update(new: Document, old: Document, shape: Shape, *, by: Manager) -> list[Document]:
    """The entries after a change that was no apply: what changed is the changer's now."""
    present = fields_of(new, shape)
    changed = frozenset(path for path in present if _differs(new, old, path, shape))
    managers = managers_of(old, shape)
    if not changed and all(manager.fields <= present for manager in managers):
        return old["metadata"]["managedFields"]
    kept = [
        replace(manager, fields=(manager.fields & present) - changed)
        for manager in managers
        if not manager.is_of(by)
    ]
    before = next((m.fields & present for m in managers if m.is_of(by)), frozenset[Path]())
    return listed([*kept, replace(by, fields=before | changed)])


def _differs(new: Document, old: Document, path: Path, shape: Shape) -> bool:
    left, right = value_at(new, path, shape), value_at(old, path, shape)
    return left is not right and not (left == right and same_document({"": left}, {"": right}))
