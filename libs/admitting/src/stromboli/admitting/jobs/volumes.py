"""Volumes that every container of a job mounts."""

from typing import Final

from stromboli.admitting.jobs.cases import JobCase
from stromboli.admitting.names import in_brackets, subdomain_faults
from stromboli.admitting.rules import Cel, Faults, Rule, rule

__all__ = ["VOLUME_RULES"]


@rule(
    "volume-mount-path",
    says=" mountPath is required;",
    about="a volume is mounted somewhere",
)
def mount_path(case: JobCase) -> Faults:
    if any(not volume.mount_path for volume in case.job.spec.volumes):
        yield ()


@rule(
    "volume-mount-path-twice",
    says=" duplicated mountPath: %s;",
    about="two volumes are not mounted at one place",
    cel=Cel(
        "!has(object.spec.volumes) || object.spec.volumes.all(v, "
        "object.spec.volumes.exists_one(o, o.mountPath == v.mountPath))",
        "duplicated mountPath",
    ),
)
def mount_path_twice(case: JobCase) -> Faults:
    seen: set[str] = set()
    for volume in case.job.spec.volumes:
        if volume.mount_path and volume.mount_path in seen:
            yield (volume.mount_path,)
            return
        seen.add(volume.mount_path)


@rule(
    "volume-claim",
    says=" either VolumeClaim or VolumeClaimName must be specified;",
    about="a volume is an existing claim, or one to be made",
    cel=Cel(
        "!has(object.spec.volumes) || object.spec.volumes.all(v, has(v.volumeClaim) || "
        '(has(v.volumeClaimName) && v.volumeClaimName != ""))',
        "either VolumeClaim or VolumeClaimName must be specified",
    ),
)
def claim(case: JobCase) -> Faults:
    if any(
        volume.volume_claim is None and not volume.volume_claim_name
        for volume in case.job.spec.volumes
    ):
        yield ()


@rule(
    "volume-claim-conflict",
    says="conflict: If you want to use an existing PVC, just specify VolumeClaimName."
    "If you want to create a new PVC, you do not need to specify VolumeClaimName",
    about="a claim to be made gets its name from the controller",
    cel=Cel(
        "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.volumeClaim) || "
        '!has(v.volumeClaimName) || v.volumeClaimName == "")',
        "conflict: If you want to use an existing PVC, just specify VolumeClaimName.",
    ),
)
def claim_conflict(case: JobCase) -> Faults:
    if any(
        volume.volume_claim is not None and volume.volume_claim_name
        for volume in case.job.spec.volumes
    ):
        yield ()


@rule(
    "volume-claim-name",
    says="invalid VolumeClaimName %s : %s",
    about="the name of a claim is a DNS subdomain",
)
def claim_name(case: JobCase) -> Faults:
    for volume in case.job.spec.volumes:
        faults = subdomain_faults(volume.volume_claim_name) if volume.volume_claim_name else []
        if faults:
            yield volume.volume_claim_name, in_brackets(faults)


VOLUME_RULES: Final[tuple[Rule[JobCase], ...]] = (
    mount_path,
    mount_path_twice,
    claim,
    claim_conflict,
    claim_name,
)
