"""The claims for volumes that a job brings along: those it names, those to be made for it.

A claim that is made is named after where it is mounted, so the same job always gets the same
claim. Claims outlive every restart of the job and end only with it. One of that name that an
earlier job has left behind is not the job's: it ends any moment, with what is on it.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from stromboli.api.batch import Job, VolumeSpec
from stromboli.api.core import PersistentVolumeClaim
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import PERSISTENT_VOLUME_CLAIM, controller_reference
from stromboli.api.owners import controller_of, is_controlled_by

__all__ = [
    "CLAIM",
    "claim_name",
    "claim_names",
    "claims_for",
    "made_claims",
    "named_claims",
]

CLAIM: Final = PERSISTENT_VOLUME_CLAIM.token


def claim_name(job: Job, volume: VolumeSpec) -> str:
    """Volcano takes a random suffix; a decision must come out the same each time."""
    if volume.volume_claim_name or volume.volume_claim is None:
        return volume.volume_claim_name
    suffix = blake2b(volume.mount_path.encode(), digest_size=6).hexdigest()
    return f"{job.metadata.name}-pvc-{suffix}"


def claim_names(job: Job) -> frozenset[str]:
    """All claims that the job mounts."""
    return frozenset(claim_name(job, volume) for volume in job.spec.volumes) - {""}


def named_claims(job: Job) -> list[str]:
    """Those that somebody else must have made."""
    return sorted({v.volume_claim_name for v in job.spec.volumes if v.volume_claim_name})


def made_claims(job: Job) -> dict[str, OpaqueObject]:
    """Name → manifest of those that are made for the job, and owned by it."""
    return {
        claim_name(job, volume): _manifest(job, claim_name(job, volume), volume.volume_claim)
        for volume in job.spec.volumes
        if volume.volume_claim is not None and not volume.volume_claim_name
    }


def claims_for(
    job: Job, find: Callable[[str], PersistentVolumeClaim | None]
) -> tuple[frozenset[str], dict[str, str]]:
    """The claims of the job that it can use, and why those can't that have one of its names."""
    usable: set[str] = set()
    taken: dict[str, str] = {}
    made = made_claims(job)
    for name in claim_names(job):
        claim = find(name)
        if claim is None:
            continue
        is_ours = name not in made or is_controlled_by(claim.metadata, job)
        if claim.metadata.deletion_timestamp is None and is_ours:
            usable.add(name)
        elif name in made:
            taken[name] = "is being deleted" if is_ours else f"belongs to {_owner(claim)}"
    return frozenset(usable), taken


def _owner(claim: PersistentVolumeClaim) -> str:
    owner = controller_of(claim.metadata)
    return "nobody" if owner is None else f"{owner.kind} {owner.name} with the uid {owner.uid}"


def _manifest(job: Job, name: str, spec: OpaqueObject) -> dict[str, Any]:
    return {
        "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "ownerReferences": [msgspec.to_builtins(controller_reference(job))],
        },
        "spec": spec,
    }
