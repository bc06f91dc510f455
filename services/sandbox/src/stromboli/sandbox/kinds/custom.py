"""Custom resources: a definition turned into table rows, one per served version.

The schema is compiled when the definition is registered; a write then prunes, defaults and
validates with the compiled nodes alone.
"""

from typing import Any

from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, same_document
from stromboli.sandbox.printing.custom import custom_printer
from stromboli.sandbox.resources import Resource, Served, Subresource
from stromboli.sandbox.schema import Node, compiled, defaulted, pruned, validated

__all__ = ["served_versions"]

_STATUS_VERBS = ("get", "patch", "update")


def served_versions(definition: Document) -> list[Served]:
    """The rows that a stored definition adds; all share one bucket, that of the resource."""
    spec = definition["spec"]
    names = spec["names"]
    versions: list[Document] = spec["versions"]
    storage = next(version for version in versions if version.get("storage"))
    resource = Resource(
        group=spec["group"],
        version=storage["name"],
        plural=names["plural"],
        singular=names["singular"],
        kind=names["kind"],
        list_kind=names["listKind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status=_has_status(storage),
        has_generation=True,
        unconditional_update=False,
        fields=_selectable(storage),
        custom=True,
    )
    return [_served(resource, version) for version in versions if version.get("served")]


def _has_status(version: Document) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _selectable(version: Document) -> tuple[str, ...]:
    return tuple(
        entry["jsonPath"].lstrip(".")
        for entry in version.get("selectableFields") or ()
        if entry.get("jsonPath")
    )


def _served(resource: Resource, version: Document) -> Served:
    has_status = _has_status(version)
    status = Subresource(name="status", kind=resource.kind, verbs=_STATUS_VERBS)
    return Served(
        resource=resource,
        version=version["name"],
        behaviour=_behaviour(version["schema"]["openAPIV3Schema"], has_status=has_status),
        has_status=has_status,
        subresources=(status,) if has_status else (),
        printer=custom_printer(version),
        schema=version["schema"]["openAPIV3Schema"],
    )


def _behaviour(schema: Document, *, has_status: bool) -> Behaviour:
    root: Node = compiled(schema)

    def shape(document: Document) -> None:
        kept: Document = pruned(document, root, root=True)
        document.clear()
        document.update(kept)
        defaulted(document, root)

    def begin(document: Document) -> None:
        if has_status:
            document.pop("status", None)

    def check(document: Document) -> list[Cause]:
        found: list[Cause] = []
        validated(document, root, "", found, root=True)
        return found

    def asks_for_more(new: Document, old: Document) -> bool:
        return not same_document(
            _without(new, has_status=has_status), _without(old, has_status=has_status)
        )

    return Behaviour(
        default=shape, prepare_create=begin, validate=check, next_generation=asks_for_more
    )


def _without(document: Document, *, has_status: bool) -> dict[str, Any]:
    ignored = {"metadata", "status"} if has_status else {"metadata"}
    return {key: value for key, value in document.items() if key not in ignored}
