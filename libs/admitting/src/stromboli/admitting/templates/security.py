"""Security contexts of pods and containers: ids in range, and no two settings at odds."""

import re
from collections.abc import Iterator
from typing import Final

from stromboli.admitting.templates.cases import ContainerCase, TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import (
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from stromboli.admitting.templates.shapes import SeccompProfile

__all__ = ["container_security", "pod_security"]

_MAX_ID: Final = 2**31 - 1
_ID_RANGE: Final = "must be between 0 and 2147483647, inclusive"
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_CHANGE_POLICIES: Final = ("Always", "OnRootMismatch")
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_SYSCTL: Final = re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([\./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")


@template_rule(
    "pod-security",
    fields=("security_context", "share_process_namespace"),
    about="user and group ids are 0 to 2147483647, profiles and policies are known, a sysctl is "
    "set once; a pod does not share its processes with itself and with the host",
)
def pod_security(case: TemplateCase) -> Iterator[str]:
    if case.spec.share_process_namespace and case.spec.host_pid:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{case.spec_path}.shareProcessNamespace", value=True, detail=detail)
    context = case.spec.security_context
    if context is None:
        return
    place = f"{case.spec_path}.securityContext"
    ids = [
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
        *((f"supplementalGroups[{i}]", g) for i, g in enumerate(context.supplemental_groups)),
    ]
    yield from _id_faults(place, ids)
    policy = context.fs_group_change_policy
    if policy is not None and policy not in _CHANGE_POLICIES:
        yield unsupported(f"{place}.fsGroupChangePolicy", policy, _CHANGE_POLICIES)
    yield from _profile(f"{place}.seccompProfile", context.seccomp_profile)
    yield from _profile(f"{place}.appArmorProfile", context.app_armor_profile)
    seen: set[str] = set()
    for index, sysctl in enumerate(context.sysctls):
        where = f"{place}.sysctls[{index}].name"
        name = sysctl.name.replace("/", ".")
        if not name:
            yield required(where)
        elif len(name) > 253 or not _SYSCTL.fullmatch(sysctl.name):
            yield invalid(where, sysctl.name, "must match the form of a sysctl's name")
        elif name in seen:
            yield duplicate(where, sysctl.name)
        seen.add(name)


@template_rule(
    "container-security",
    fields=("security_context",),
    about="ids and profiles as for pods; a privileged container, and one with CAP_SYS_ADMIN, may "
    "gain privileges",
)
def container_security(case: ContainerCase) -> Iterator[str]:
    context = case.container.security_context
    if context is None:
        return
    place = f"{case.path}.securityContext"
    ids = [("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)]
    yield from _id_faults(place, ids)
    if context.allow_privilege_escalation is False:
        if context.privileged:
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(place, "", detail)
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            detail = (
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                "CAP_SYS_ADMIN"
            )
            yield invalid(place, "", detail)
    if context.proc_mount is not None and context.proc_mount not in _PROC_MOUNTS:
        yield unsupported(f"{place}.procMount", context.proc_mount, _PROC_MOUNTS)
    yield from _profile(f"{place}.seccompProfile", context.seccomp_profile)
    yield from _profile(f"{place}.appArmorProfile", context.app_armor_profile)


def _id_faults(place: str, ids: list[tuple[str, int | None]]) -> Iterator[str]:
    for field, number in ids:
        if number is not None and not 0 <= number <= _MAX_ID:
            yield invalid(f"{place}.{field}", number, _ID_RANGE)


def _profile(place: str, profile: SeccompProfile | None) -> Iterator[str]:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{place}.type", "type is required when the profile is set")
    elif profile.type not in _PROFILES:
        yield unsupported(f"{place}.type", profile.type, _PROFILES)
    elif profile.type == "Localhost" and not profile.localhost_profile:
        yield required(f"{place}.localhostProfile", "must be set when type is Localhost")
    elif profile.type != "Localhost" and profile.localhost_profile:
        yield forbidden(f"{place}.localhostProfile", "can only be set when type is Localhost")
