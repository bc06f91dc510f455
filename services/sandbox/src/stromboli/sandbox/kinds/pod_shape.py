"""The JSON types of a Pod's fields: what turns a string where a list belongs into a 400.

Only types are told here, and only of fields that something reads; unlisted fields pass
unchecked. Values and combinations are the business of the validation modules. Every field may
be null, which Kubernetes reads as absent.
"""

from typing import Any, TypeAlias

import msgspec

__all__ = ["IntOrString", "PodShape", "PodSpecShape", "QuantityShape", "TaintShape"]

IntOrString: TypeAlias = int | str
QuantityShape: TypeAlias = str | int | float
Opaque: TypeAlias = dict[str, Any]
"""An object whose inside is not looked at."""


class _Shape(msgspec.Struct, rename="camel"):
    pass


class KeySelectorShape(_Shape):
    name: str | None = None
    key: str | None = None
    optional: bool | None = None


class EnvSourceShape(_Shape):
    field_ref: Opaque | None = None
    resource_field_ref: Opaque | None = None
    config_map_key_ref: KeySelectorShape | None = None
    secret_key_ref: KeySelectorShape | None = None


class EnvShape(_Shape):
    name: str | None = None
    value: str | None = None
    value_from: EnvSourceShape | None = None


class PortShape(_Shape):
    name: str | None = None
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None


class ResourcesShape(_Shape):
    requests: dict[str, QuantityShape] | None = None
    limits: dict[str, QuantityShape] | None = None
    claims: list[Opaque] | None = None


class MountShape(_Shape):
    name: str | None = None
    mount_path: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None
    read_only: bool | None = None


class ProbeShape(_Shape, rename={"http_get": "httpGet", "tcp_socket": "tcpSocket"}):
    exec: Opaque | None = None
    http_get: Opaque | None = None
    tcp_socket: Opaque | None = None
    grpc: Opaque | None = None


class ContainerShape(_Shape):
    name: str | None = None
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    ports: list[PortShape] | None = None
    env: list[EnvShape] | None = None
    env_from: list[Opaque] | None = None
    resources: ResourcesShape | None = None
    restart_policy: str | None = None
    volume_mounts: list[MountShape] | None = None
    liveness_probe: ProbeShape | None = None
    readiness_probe: ProbeShape | None = None
    startup_probe: ProbeShape | None = None
    lifecycle: Opaque | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    image_pull_policy: str | None = None
    security_context: Opaque | None = None
    stdin: bool | None = None
    tty: bool | None = None


class VolumeShape(_Shape):
    name: str | None = None
    empty_dir: Opaque | None = None
    host_path: Opaque | None = None
    secret: Opaque | None = None
    config_map: Opaque | None = None
    persistent_volume_claim: Opaque | None = None
    projected: Opaque | None = None


class TolerationShape(_Shape):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class TaintShape(_Shape):
    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: str | None = None


class GateShape(_Shape):
    name: str | None = None


class AffinityShape(_Shape):
    node_affinity: Opaque | None = None
    pod_affinity: Opaque | None = None
    pod_anti_affinity: Opaque | None = None


class SpreadShape(_Shape):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: Opaque | None = None


class PodSpecShape(_Shape):
    containers: list[ContainerShape] | None = None
    init_containers: list[ContainerShape] | None = None
    ephemeral_containers: list[Opaque] | None = None
    volumes: list[VolumeShape] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    node_name: str | None = None
    host_network: bool | None = None
    security_context: Opaque | None = None
    image_pull_secrets: list[GateShape] | None = None
    hostname: str | None = None
    subdomain: str | None = None
    affinity: AffinityShape | None = None
    scheduler_name: str | None = None
    tolerations: list[TolerationShape] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    enable_service_links: bool | None = None
    overhead: dict[str, QuantityShape] | None = None
    topology_spread_constraints: list[SpreadShape] | None = None
    scheduling_gates: list[GateShape] | None = None
    resources: ResourcesShape | None = None


class ConditionShape(_Shape):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ContainerStatusShape(_Shape):
    name: str | None = None
    state: Opaque | None = None
    last_state: Opaque | None = None
    ready: bool | None = None
    restart_count: int | None = None
    image: str | None = None


class PodStatusShape(
    _Shape,
    rename={
        "init_container_statuses": "initContainerStatuses",
        "container_statuses": "containerStatuses",
        "nominated_node_name": "nominatedNodeName",
        "host_ip": "hostIP",
        "pod_ip": "podIP",
        "start_time": "startTime",
        "qos_class": "qosClass",
    },
):
    phase: str | None = None
    conditions: list[ConditionShape] | None = None
    message: str | None = None
    reason: str | None = None
    nominated_node_name: str | None = None
    host_ip: str | None = None
    pod_ip: str | None = None
    start_time: str | None = None
    init_container_statuses: list[ContainerStatusShape] | None = None
    container_statuses: list[ContainerStatusShape] | None = None
    qos_class: str | None = None


class PodShape(_Shape):
    spec: PodSpecShape | None = None
    status: PodStatusShape | None = None
