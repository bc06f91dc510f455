"""What would come of submitting a manifest: the dry run of command lines and tests.

All paths of the manifest's kind are asked in the API server's order, defaults before rules,
and what the defaults change is what the rules see. The CRD schema is not part of it: only an
API server knows that.
"""

from dataclasses import dataclass

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.patching import applied
from stromboli.admitting.paths import CREATE, DELETE, Path
from stromboli.admitting.questions import ALLOWED, Json, Review, Surroundings, UserInfo, Verdict
from stromboli.admitting.reviewing import PATHS, review

__all__ = ["Rehearsal", "rehearse"]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The verdict, and the object as it would be stored."""

    verdict: Verdict
    object: Json


def rehearse(
    manifest: Json,
    surroundings: Surroundings,
    *,
    conf: AdmissionConf,
    user: UserInfo,
    namespace: str = "",
    operation: str = CREATE,
    old: Json = None,
) -> Rehearsal:
    """Submit `manifest` to the rules alone; a kind that has none is allowed."""
    stored, warnings = manifest, list[str]()
    for path in _paths_of(manifest, operation):
        verdict = review(
            path.path,
            Review(
                uid="rehearsal",
                kind=path.kind,
                resource=path.resource,
                operation=operation,
                namespace=namespace,
                name=_name_in(manifest),
                object=None if operation == DELETE else stored,
                old_object=manifest if operation == DELETE else old,
                user_info=user,
                dry_run=True,
            ),
            surroundings,
            conf,
        )
        if not verdict.allowed:
            return Rehearsal(verdict, stored)
        warnings += verdict.warnings
        stored = applied(stored, verdict.patch or ())
    if warnings:
        return Rehearsal(Verdict(allowed=True, warnings=tuple(warnings)), stored)
    return Rehearsal(ALLOWED, stored)


def _paths_of(manifest: Json, operation: str) -> list[Path]:
    """Those that look at this kind; the ones that fill in defaults come first."""
    if not isinstance(manifest, dict):
        return []
    kind: Json = manifest.get("kind")
    version: Json = manifest.get("apiVersion")
    found = [
        path
        for path in PATHS.values()
        if path.kind == kind and _api_version(path) == version and operation in path.operations
    ]
    return sorted(found, key=lambda path: not path.mutates)


def _api_version(path: Path) -> str:
    group, version = path.resource.group, path.resource.version
    return f"{group}/{version}" if group else version


def _name_in(manifest: Json) -> str:
    metadata: Json = manifest.get("metadata")
    name: Json = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
