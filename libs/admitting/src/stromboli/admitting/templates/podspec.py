"""What a pod says of itself as a whole: labels, policies, names, times."""

from collections.abc import Iterator
from typing import Final

from stromboli.admitting.names import label_faults, qualified_name_faults, subdomain_faults
from stromboli.admitting.templates.cases import TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import (
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from stromboli.admitting.templates.placement import label_map_faults
from stromboli.admitting.templates.ports import is_ip

__all__ = ["dns", "gates", "host_aliases", "labels", "names", "no_ephemeral", "policies", "times"]

_RESTART: Final = ("Always", "Never", "OnFailure")
_DNS: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PREEMPTION: Final = ("Never", "PreemptLowerPriority")
_SYSTEMS: Final = ("linux", "windows")
_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_DEADLINE: Final = 2**31 - 1
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32


@template_rule("labels", about="labels and annotations have legal keys, and values that fit")
def labels(case: TemplateCase) -> Iterator[str]:
    metadata = case.template.metadata
    yield from label_map_faults(f"{case.path}.labels", metadata.labels)
    size = 0
    for key, value in metadata.annotations.items():
        faults = qualified_name_faults(key.lower())
        yield from all_invalid(f"{case.path}.annotations", key, faults)
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        yield f"{case.path}.annotations: Too long: may not be more than {_MAX_ANNOTATIONS} bytes"


@template_rule(
    "pod-policies",
    fields=("restart_policy", "preemption_policy", "os"),
    about="restartPolicy, preemptionPolicy and the operating system are known ones",
)
def policies(case: TemplateCase) -> Iterator[str]:
    spec, place = case.spec, case.spec_path
    if spec.restart_policy and spec.restart_policy not in _RESTART:
        yield unsupported(f"{place}.restartPolicy", spec.restart_policy, _RESTART)
    if spec.preemption_policy is not None and spec.preemption_policy not in _PREEMPTION:
        yield unsupported(f"{place}.preemptionPolicy", spec.preemption_policy, _PREEMPTION)
    if spec.os is not None and spec.os.name not in _SYSTEMS:
        yield unsupported(f"{place}.os.name", spec.os.name, _SYSTEMS)


@template_rule(
    "dns",
    fields=("dns_policy", "dns_config"),
    about="dnsPolicy is known; at most 3 name servers, which are addresses; `None` has some",
)
def dns(case: TemplateCase) -> Iterator[str]:
    policy, config = case.spec.dns_policy, case.spec.dns_config
    if policy and policy not in _DNS:
        yield unsupported(f"{case.spec_path}.dnsPolicy", policy, _DNS)
    servers = config.nameservers if config is not None else ()
    place = f"{case.spec_path}.dnsConfig"
    if policy == "None" and not servers:
        yield required(f"{place}.nameservers", "must provide at least one DNS nameserver")
    if len(servers) > _MAX_NAMESERVERS:
        yield invalid(f"{place}.nameservers", "", "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        if not is_ip(server):
            yield invalid(f"{place}.nameservers[{index}]", server, "must be a valid IP address")
    if config is not None and len(config.searches) > _MAX_SEARCHES:
        yield invalid(f"{place}.searches", "", "must not have more than 32 search paths")


@template_rule(
    "pod-names",
    fields=("service_account_name", "node_name", "runtime_class_name", "hostname", "subdomain"),
    about="names of the service account, node, priority and runtime class are DNS subdomains, "
    "hostname and subdomain DNS labels",
)
def names(case: TemplateCase) -> Iterator[str]:
    spec, place = case.spec, case.spec_path
    for field, name in (
        ("serviceAccountName", spec.service_account_name),
        ("nodeName", spec.node_name),
        ("runtimeClassName", spec.runtime_class_name),
    ):
        if name:
            yield from all_invalid(f"{place}.{field}", name, subdomain_faults(name))
    for field, name in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if name:
            yield from all_invalid(f"{place}.{field}", name, label_faults(name))


@template_rule("times", about="deadlines are 1 to 2147483647 seconds")
def times(case: TemplateCase) -> Iterator[str]:
    deadline = case.spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        detail = f"must be between 1 and {_MAX_DEADLINE}, inclusive"
        yield invalid(f"{case.spec_path}.activeDeadlineSeconds", deadline, detail)


@template_rule(
    "host-aliases", fields=("host_aliases",), about="aliases are addresses with legal host names"
)
def host_aliases(case: TemplateCase) -> Iterator[str]:
    for index, alias in enumerate(case.spec.host_aliases):
        place = f"{case.spec_path}.hostAliases[{index}]"
        if not is_ip(alias.ip):
            yield invalid(f"{place}.ip", alias.ip, "must be a valid IP address")
        for name in alias.hostnames:
            yield from all_invalid(f"{place}.hostnames", name, subdomain_faults(name))


@template_rule(
    "gates",
    fields=("scheduling_gates", "readiness_gates"),
    about="scheduling gates and readiness gates have qualified names, the former once",
)
def gates(case: TemplateCase) -> Iterator[str]:
    seen: set[str] = set()
    for index, gate in enumerate(case.spec.scheduling_gates):
        place = f"{case.spec_path}.schedulingGates[{index}]"
        yield from all_invalid(place, gate.name, qualified_name_faults(gate.name))
        if gate.name in seen:
            yield duplicate(place, gate.name)
        seen.add(gate.name)
    for index, gate in enumerate(case.spec.readiness_gates):
        place = f"{case.spec_path}.readinessGates[{index}].conditionType"
        kind = gate.condition_type
        yield from all_invalid(place, kind, qualified_name_faults(kind))


@template_rule(
    "ephemeral-containers",
    fields=("ephemeral_containers",),
    about="pods are not made with ephemeral containers",
)
def no_ephemeral(case: TemplateCase) -> Iterator[str]:
    if case.spec.ephemeral_containers:
        detail = "ephemeral containers not allowed in pod template"
        yield forbidden(f"{case.spec_path}.ephemeralContainers", detail)
