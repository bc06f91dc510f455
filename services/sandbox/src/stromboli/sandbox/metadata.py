"""What every object carries: metadata checked, completed on create, protected on update.

The server owns uid, creationTimestamp, generation, resourceVersion, the deletion fields and
managedFields; clients own the rest. Metadata is rebuilt from the fields Kubernetes knows, so
unknown ones are dropped and empty ones are absent, as in the typed originals.
"""

import uuid
from typing import Any, Final

import msgspec

from stromboli.sandbox import causes, statuses
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.names import (
    NAME_RULES,
    generated_name,
    label_key_problems,
    label_value_problems,
)

__all__ = [
    "ObjectMetaShape",
    "canonical",
    "checked",
    "complete_for_create",
    "complete_for_update",
    "owner_uids",
    "update_causes",
    "validation_causes",
]

_MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


class OwnerReferenceShape(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMetaShape(msgspec.Struct, rename="camel"):
    """The JSON types of metadata; used to refuse, never to store."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReferenceShape] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[dict[str, Any]] | None = None


_KNOWN: Final = tuple(field.encode_name for field in msgspec.structs.fields(ObjectMetaShape))


def checked(metadata: Any) -> Document:
    """The metadata as a fresh canonical document; msgspec.ValidationError on a wrong type."""
    if metadata is None:
        return {}
    msgspec.convert(metadata, ObjectMetaShape)
    return canonical(metadata)


def canonical(metadata: Document) -> Document:
    return {
        key: value
        for key in _KNOWN
        if (value := metadata.get(key)) is not None and value not in ("", {}, [])
    }


def owner_uids(metadata: Document) -> tuple[str, ...]:
    references = metadata.get("ownerReferences")
    if not references:
        return ()
    return tuple(reference.get("uid", "") for reference in references)


def complete_for_create(
    metadata: Document, *, namespace: str, timestamp: str, generation: bool
) -> Document:
    """Metadata of a new object: the server's own fields are set, whatever the client sent."""
    if metadata.get("resourceVersion") not in {None, "", "0"}:
        raise statuses.bad_request("resourceVersion should not be set on objects to be created")
    name = metadata.get("name", "")
    base = metadata.get("generateName", "")
    if not name and base:
        name = generated_name(base)
    completed: Document = {"name": name}
    if base:
        completed["generateName"] = base
    if namespace:
        completed["namespace"] = namespace
    completed["uid"] = str(uuid.uuid4())
    completed["resourceVersion"] = ""
    if generation:
        completed["generation"] = 1
    completed["creationTimestamp"] = timestamp
    for key in ("labels", "annotations", "ownerReferences", "finalizers"):
        if key in metadata:
            completed[key] = metadata[key]
    return completed


def complete_for_update(metadata: Document, old: Document) -> Document:
    """Fields the client left out, and those it may not choose, come from the stored object."""
    completed = dict(metadata)
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if key not in completed and key in old:
            completed[key] = old[key]
    for key in ("generation", "resourceVersion", "generateName", "managedFields"):
        if key in old:
            completed[key] = old[key]
        else:
            completed.pop(key, None)
    return canonical(completed)


def validation_causes(metadata: Document, *, name_rule: str) -> list[Cause]:
    found: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        found.append(causes.required("metadata.name", "name or generateName is required"))
    else:
        found += [
            causes.invalid("metadata.name", name, problem)
            for problem in NAME_RULES[name_rule](name)
        ]
    found += _shared_causes(metadata)
    return found


def _shared_causes(metadata: Document) -> list[Cause]:
    found = label_causes(metadata.get("labels"), "metadata.labels")
    annotations: dict[str, str] | None = metadata.get("annotations")
    if annotations:
        for key in annotations:
            # An annotation's key may have capitals where a label's may not.
            found += [
                causes.invalid("metadata.annotations", key, problem)
                for problem in label_key_problems(key.lower())
            ]
        size = sum(len(key) + len(value) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS_BYTES:
            found.append(causes.too_long("metadata.annotations", _MAX_ANNOTATIONS_BYTES))
    if "ownerReferences" in metadata:
        found += _owner_causes(metadata["ownerReferences"])
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        field = f"metadata.finalizers[{index}]"
        found += [causes.invalid(field, finalizer, p) for p in label_key_problems(finalizer)]
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(causes.invalid(field, finalizer, detail))
    return found


def label_causes(labels: dict[str, str] | None, field: str) -> list[Cause]:
    found: list[Cause] = []
    for key, value in (labels or {}).items():
        found += [causes.invalid(field, key, problem) for problem in label_key_problems(key)]
        found += [causes.invalid(field, value, problem) for problem in label_value_problems(value)]
    return found


def _owner_causes(references: list[Document]) -> list[Cause]:
    """Kube names the list, not the item: its messages carry no index here."""
    found: list[Cause] = []
    controller = ""
    field = "metadata.ownerReferences"
    for reference in references:
        if not reference.get("apiVersion"):
            found.append(causes.invalid(f"{field}.apiVersion", "", "version must not be empty"))
        found += [
            causes.invalid(f"{field}.{key}", "", "must not be empty")
            for key in ("kind", "name", "uid")
            if not reference.get(key)
        ]
        if reference.get("controller"):
            named = f"{reference.get('kind', '')} {reference.get('name', '')}".strip()
            if controller:
                detail = (
                    "Only one reference can have Controller set to true. Found"
                    f' "true" in references for {controller} and {named}'
                )
                found.append(causes.invalid(field, references, detail))
            controller = named
    return found


def update_causes(new: Document, old: Document) -> list[Cause]:
    """What an update may not do to the metadata of the stored object."""
    found: list[Cause] = []
    if "deletionTimestamp" in old:
        known = set(old.get("finalizers", ()))
        extra = sorted(set(new.get("finalizers", ())) - known)
        if extra:
            told = ", ".join(f'"{finalizer}"' for finalizer in extra)
            detail = (
                "no new finalizers can be added if the object is being deleted, found new"
                f" finalizers []string{{{told}}}"
            )
            found.append(causes.forbidden("metadata.finalizers", detail))
    found += [
        causes.invalid(f"metadata.{key}", new.get(key), "field is immutable")
        for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
        if new.get(key) != old.get(key)
    ]
    found += _shared_causes(new)
    return found
