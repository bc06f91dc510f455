"""What an operator decides about admission.

The part that Volcano reads from `--admission-conf` is `resourceGroups`; its file is taken as it
is. The rest are Volcano's flags, and ours.
"""

from typing import Final

import msgspec
import yaml

from stromboli.admitting.errors import BadAdmissionConf
from stromboli.admitting.questions import Json
from stromboli.api.wellknown import SCHEDULER_NAME

__all__ = ["JOB_PLUGINS", "AdmissionConf", "GroupObject", "ResourceGroup", "read_resource_groups"]

JOB_PLUGINS: Final = frozenset(
    {"env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"}
)
"""The names that `spec.plugins` of a Job may use."""


class GroupObject(msgspec.Struct, frozen=True):
    """Which pods are in a group: by `namespace`, by `annotation`, or (empty) by its own name."""

    key: str = ""
    value: tuple[str, ...] = ()


class ResourceGroup(msgspec.Struct, frozen=True, rename="camel"):
    """What the pods of a group are given: where they run, and who places them."""

    resource_group: str = ""
    object: GroupObject = GroupObject()
    scheduler_name: str = ""
    tolerations: tuple[dict[str, Json], ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: str = ""
    """JSON text, as in Volcano's file."""


class AdmissionConf(msgspec.Struct, frozen=True, kw_only=True):
    """All settings that a verdict depends on."""

    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)
    """The first is the default of a Job; pods of others are none of our business."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    scheduling_gates: bool = False
    """Volcano's feature gate SchedulingGatesQueueAdmission."""
    max_queue_depth: int = 5
    root_queue_protection: bool = True
    queue_allocated_pods_check: bool = False
    """Whether a queue with pods that hold resources may not be deleted."""
    job_plugins: frozenset[str] = JOB_PLUGINS
    trusted_users: tuple[str, ...] = ()
    """User names that create on behalf of objects which were checked already: the gateway's."""


class _File(msgspec.Struct, rename="camel"):
    resource_groups: tuple[ResourceGroup, ...] | None = None


def read_resource_groups(text: str) -> tuple[ResourceGroup, ...]:
    """The `resourceGroups` of an `--admission-conf` file; raises BadAdmissionConf."""
    try:
        found = msgspec.convert(yaml.safe_load(text) or {}, _File)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as fault:
        raise BadAdmissionConf(str(fault)) from fault
    groups = found.resource_groups or ()
    for group in groups:
        if group.object.key not in ("", "namespace", "annotation"):
            raise BadAdmissionConf(
                f"object.key {group.object.key!r} of resource group {group.resource_group!r} is "
                "neither 'namespace' nor 'annotation' nor empty"
            )
        _check_affinity(group)
    return groups


def _check_affinity(group: ResourceGroup) -> None:
    if not group.affinity:
        return
    try:
        msgspec.json.decode(group.affinity, type=dict[str, Json])
    except (msgspec.DecodeError, RecursionError) as fault:
        raise BadAdmissionConf(
            f"affinity of resource group {group.resource_group!r} is no JSON object: {fault}"
        ) from fault
