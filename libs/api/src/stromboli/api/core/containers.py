"""What runs in a pod, what it asks for, and how it fares."""

from msgspec import field

from stromboli.api.fieldtypes import Int32, ResourceList, Shape, Timestamp

__all__ = [
    "ConfigMapKeySelector",
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "EnvVar",
    "EnvVarSource",
    "FieldSelectorOfPod",
    "ResourceClaimName",
    "ResourceRequirements",
    "VolumeMount",
]


class FieldSelectorOfPod(Shape):
    field_path: str = ""


class ConfigMapKeySelector(Shape):
    """A key in a ConfigMap or in a Secret: both are named the same way."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(Shape):
    field_ref: FieldSelectorOfPod | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: ConfigMapKeySelector | None = None


class EnvVar(Shape):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ContainerPort(Shape):
    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ResourceClaimName(Shape):
    name: str = ""
    request: str = ""


class ResourceRequirements(Shape):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)
    claims: tuple[ResourceClaimName, ...] = ()


class VolumeMount(Shape):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    read_only: bool = False


class Container(Shape):
    """A container or an init container; one of the latter with `Always` is a sidecar."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    volume_mounts: tuple[VolumeMount, ...] = ()
    restart_policy: str | None = None


class ContainerStateWaiting(Shape):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Shape):
    started_at: Timestamp = None


class ContainerStateTerminated(Shape):
    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: Timestamp = None
    finished_at: Timestamp = None


class ContainerState(Shape):
    """At most one of the three; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Shape):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: Int32 = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)
