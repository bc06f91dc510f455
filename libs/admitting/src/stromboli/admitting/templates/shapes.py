"""A pod template as far as its validity depends on it.

Wider than `stromboli.api.core`, which shows what is decided by: here are the fields that can be
wrong. What a newer API server knows beyond this is left to it.
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import field

from stromboli.api.fieldtypes import OpaqueObject, ResourceList, Shape
from stromboli.api.selectors import LabelSelector, Requirement

__all__ = [
    "Affinity", "Capabilities", "Container", "DnsConfig", "DownwardItem", "DownwardSource",
    "EnvFromSource", "EnvVar", "EnvVarSource", "Exec", "FieldRef", "Grpc", "Handler", "HostAlias",
    "HttpGet", "HttpHeader", "ItemSource", "KeyRef", "KeyToPath", "Lifecycle", "Mode", "NameRef",
    "NodeAffinity", "NodeSelector", "NodeSelectorTerm", "PodAffinity", "PodAffinityTerm", "PodOs",
    "PodSecurityContext", "PodSpec", "PodTemplate", "Port", "PortNumber", "PreferredTerm",
    "Probe", "Projected", "ProjectedSource", "ReadinessGate", "ResourceFieldRef", "Resources",
    "SeccompProfile", "SecurityContext", "ServiceAccountToken", "Sleep", "SpreadConstraint",
    "Sysctl", "TcpSocket", "TemplateMeta", "Toleration", "Volume", "VolumeDevice", "VolumeMount",
    "VolumeSource", "WeightedTerm",
]  # fmt: skip

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Mode: TypeAlias = Int32
PortNumber: TypeAlias = Int32 | str
"""An IntOrString: the number of a port, or its name."""


class Port(Shape):
    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class FieldRef(Shape):
    field_path: str = ""


class ResourceFieldRef(Shape):
    resource: str = ""


class KeyRef(Shape):
    name: str = ""
    key: str = ""


class NameRef(Shape):
    name: str = ""


class EnvVarSource(Shape):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    file_key_ref: OpaqueObject | None = None


class EnvVar(Shape):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvFromSource(Shape):
    prefix: str = ""
    config_map_ref: NameRef | None = None
    secret_ref: NameRef | None = None


class Resources(Shape):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)
    claims: tuple[NameRef, ...] = ()


class VolumeMount(Shape):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class VolumeDevice(Shape):
    name: str = ""
    device_path: str = ""


class Exec(Shape):
    command: tuple[str, ...] = ()


class HttpHeader(Shape):
    name: str = ""


class HttpGet(Shape):
    port: PortNumber = 0
    scheme: str = ""
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocket(Shape):
    port: PortNumber = 0


class Grpc(Shape):
    port: Int32 = 0


class Sleep(Shape):
    seconds: Int64 = 0


class Handler(Shape):
    """What a probe or a hook does; `grpc` is of probes, `sleep` of hooks."""

    exec: Exec | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: Grpc | None = None
    sleep: Sleep | None = None


class Probe(Handler):
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 = 0
    period_seconds: Int32 = 0
    success_threshold: Int32 = 0
    failure_threshold: Int32 = 0
    termination_grace_period_seconds: Int64 | None = None


class Lifecycle(Shape):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class SeccompProfile(Shape):
    """Also an AppArmor profile: the two are written the same way."""

    type: str = ""
    localhost_profile: str | None = None


class Capabilities(Shape):
    add: tuple[str, ...] = ()


class SecurityContext(Shape):
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    capabilities: Capabilities | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: SeccompProfile | None = None


class Container(Shape):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[Port, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class KeyToPath(Shape):
    key: str = ""
    path: str = ""
    mode: Mode | None = None


class DownwardItem(Shape):
    path: str = ""
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: Mode | None = None


class ServiceAccountToken(Shape):
    path: str = ""
    expiration_seconds: Int64 | None = None


class VolumeSource(Shape):
    """The union of what the sources that we look into can say."""

    name: str = ""
    secret_name: str = ""
    claim_name: str = ""
    path: str = ""
    type: str | None = None
    server: str = ""
    driver: str = ""
    size_limit: str | int | float | None = None
    default_mode: Mode | None = None
    volume_claim_template: OpaqueObject | None = None


class ItemSource(VolumeSource):
    items: tuple[KeyToPath, ...] = ()


class DownwardSource(VolumeSource):
    items: tuple[DownwardItem, ...] = ()


class ProjectedSource(Shape):
    config_map: ItemSource | None = None
    secret: ItemSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")
    service_account_token: ServiceAccountToken | None = None
    cluster_trust_bundle: OpaqueObject | None = None
    pod_certificate: OpaqueObject | None = None


class Projected(VolumeSource):
    sources: tuple[ProjectedSource, ...] = ()


class Volume(Shape):
    name: str = ""
    empty_dir: VolumeSource | None = None
    host_path: VolumeSource | None = None
    secret: ItemSource | None = None
    config_map: ItemSource | None = None
    persistent_volume_claim: VolumeSource | None = None
    nfs: VolumeSource | None = None
    csi: VolumeSource | None = None
    ephemeral: VolumeSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")
    projected: Projected | None = None


class Toleration(Shape):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class NodeSelectorTerm(Shape):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Shape):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(Shape):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Shape):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class PodAffinityTerm(Shape):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()


class WeightedTerm(Shape):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Shape):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedTerm, ...] = ()


class Affinity(Shape):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Shape):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    min_domains: Int32 | None = None
    label_selector: LabelSelector | None = None


class Sysctl(Shape):
    name: str = ""


class PodSecurityContext(Shape):
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    fs_group: Int64 | None = None
    supplemental_groups: tuple[Int64, ...] = ()
    fs_group_change_policy: str | None = None
    sysctls: tuple[Sysctl, ...] = ()
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: SeccompProfile | None = None


class HostAlias(Shape):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class DnsConfig(Shape):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


class ReadinessGate(Shape):
    condition_type: str = ""


class PodOs(Shape):
    name: str = ""


class PodSpec(Shape):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[OpaqueObject, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = ""
    dns_policy: str = ""
    dns_config: DnsConfig | None = None
    active_deadline_seconds: Int64 | None = None
    termination_grace_period_seconds: Int64 | None = None
    service_account_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    host_network: bool = False
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    scheduling_gates: tuple[NameRef, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()
    priority_class_name: str = ""
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    resource_claims: tuple[NameRef, ...] = ()
    resources: Resources | None = None
    os: PodOs | None = None


class TemplateMeta(Shape):
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class PodTemplate(Shape):
    metadata: TemplateMeta = field(default_factory=TemplateMeta)
    spec: PodSpec = field(default_factory=PodSpec)
