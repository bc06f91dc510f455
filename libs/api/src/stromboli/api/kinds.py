"""The registry of kinds: for each, its token on the bus, its place in the API, and its type.

A token names one (group, kind) for good, since subjects and stored facts are spelt with it;
`k8sjob` is batch/v1 Job. Adding a kind is adding a row here.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from stromboli.api.batch import Job
from stromboli.api.bus import Command
from stromboli.api.core import (
    BatchJob,
    ConfigMap,
    CSINode,
    DaemonSet,
    Event,
    Lease,
    Namespace,
    NetworkPolicy,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ResourceQuota,
    Secret,
    Service,
    StatefulSet,
    StorageClass,
)
from stromboli.api.cron import CronJob
from stromboli.api.errors import BadPath, UnknownKind
from stromboli.api.flow import JobFlow, JobTemplate
from stromboli.api.meta import KubeObject, OwnerReference
from stromboli.api.scheduling import PodGroup, Queue
from stromboli.api.topology import HyperNode

__all__ = [
    "COMMAND",
    "CONFIG_MAP",
    "CSI_NODE",
    "DAEMON_SET",
    "EVENT",
    "HYPER_NODE",
    "JOB_FLOW",
    "JOB_TEMPLATE",
    "K8S_JOB",
    "KINDS",
    "LEASE",
    "NAMESPACE",
    "NETWORK_POLICY",
    "NODE",
    "PERSISTENT_VOLUME",
    "PERSISTENT_VOLUME_CLAIM",
    "POD",
    "POD_DISRUPTION_BUDGET",
    "PRIORITY_CLASS",
    "QUEUE",
    "REPLICA_SET",
    "RESOURCE_QUOTA",
    "SECRET",
    "SERVICE",
    "STATEFUL_SET",
    "STORAGE_CLASS",
    "VC_CRON_JOB",
    "VC_JOB",
    "VC_POD_GROUP",
    "Kind",
    "by_gvk",
    "by_token",
    "controller_reference",
    "kind_of",
]

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One kind of object; `type` is what its objects decode to."""

    token: str
    _: KW_ONLY
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[T]
    short_names: tuple[str, ...] = ()
    status_subresource: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of an object, or of a collection when no name is given.

        Without a namespace, the collection is that of all namespaces.
        """
        if namespace and not self.namespaced:
            raise BadPath(self.kind, f"it has no namespace, but {namespace!r} was given")
        if name and self.namespaced and not namespace:
            raise BadPath(self.kind, f"the namespace of {name!r} is missing")
        if subresource and not name:
            raise BadPath(self.kind, f"subresource {subresource!r} needs a name")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", self._segment(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(self._segment(name))
        if subresource:
            parts.append(self._segment(subresource))
        return "/" + "/".join(parts)

    def _segment(self, text: str) -> str:
        # What Kubernetes itself forbids in names, because a path would read differently.
        if text in (".", "..") or "/" in text or "%" in text:
            raise BadPath(self.kind, f"{text!r} cannot be part of a path")
        return quote(text, safe="")


POD: Final = Kind(
    "pod", group="", version="v1", kind="Pod", plural="pods", namespaced=True, type=Pod,
    short_names=("po",), status_subresource=True,
)  # fmt: skip
NODE: Final = Kind(
    "node", group="", version="v1", kind="Node", plural="nodes", namespaced=False, type=Node,
    short_names=("no",), status_subresource=True,
)  # fmt: skip
PRIORITY_CLASS: Final = Kind(
    "priorityclass", group="scheduling.k8s.io", version="v1", kind="PriorityClass",
    plural="priorityclasses", namespaced=False, type=PriorityClass, short_names=("pc",),
)  # fmt: skip
NAMESPACE: Final = Kind(
    "namespace", group="", version="v1", kind="Namespace", plural="namespaces",
    namespaced=False, type=Namespace, short_names=("ns",), status_subresource=True,
)  # fmt: skip
CONFIG_MAP: Final = Kind(
    "configmap", group="", version="v1", kind="ConfigMap", plural="configmaps",
    namespaced=True, type=ConfigMap, short_names=("cm",),
)  # fmt: skip
SERVICE: Final = Kind(
    "service", group="", version="v1", kind="Service", plural="services", namespaced=True,
    type=Service, short_names=("svc",), status_subresource=True,
)  # fmt: skip
SECRET: Final = Kind(
    "secret", group="", version="v1", kind="Secret", plural="secrets", namespaced=True,
    type=Secret,
)  # fmt: skip
EVENT: Final = Kind(
    "event", group="", version="v1", kind="Event", plural="events", namespaced=True,
    type=Event, short_names=("ev",),
)  # fmt: skip
LEASE: Final = Kind(
    "lease", group="coordination.k8s.io", version="v1", kind="Lease", plural="leases",
    namespaced=True, type=Lease,
)  # fmt: skip
VC_JOB: Final = Kind(
    "vcjob", group="batch.volcano.sh", version="v1alpha1", kind="Job", plural="jobs",
    namespaced=True, type=Job, short_names=("vcjob", "vj"), status_subresource=True,
)  # fmt: skip
VC_POD_GROUP: Final = Kind(
    "vcpodgroup", group="scheduling.volcano.sh", version="v1beta1", kind="PodGroup",
    plural="podgroups", namespaced=True, type=PodGroup, short_names=("pg", "podgroup-v1beta1"),
)  # fmt: skip
QUEUE: Final = Kind(
    "queue", group="scheduling.volcano.sh", version="v1beta1", kind="Queue",
    plural="queues", namespaced=False, type=Queue, short_names=("q", "queue-v1beta1"),
    status_subresource=True,
)  # fmt: skip
COMMAND: Final = Kind(
    "command", group="bus.volcano.sh", version="v1alpha1", kind="Command",
    plural="commands", namespaced=True, type=Command,
)  # fmt: skip
VC_CRON_JOB: Final = Kind(
    "vccronjob", group="batch.volcano.sh", version="v1alpha1", kind="CronJob",
    plural="cronjobs", namespaced=True, type=CronJob, short_names=("cronvcjob", "cronvj"),
    status_subresource=True,
)  # fmt: skip
JOB_FLOW: Final = Kind(
    "jobflow", group="flow.volcano.sh", version="v1alpha1", kind="JobFlow", plural="jobflows",
    namespaced=True, type=JobFlow, short_names=("jf",), status_subresource=True,
)  # fmt: skip
JOB_TEMPLATE: Final = Kind(
    "jobtemplate", group="flow.volcano.sh", version="v1alpha1", kind="JobTemplate",
    plural="jobtemplates", namespaced=True, type=JobTemplate, short_names=("jt",),
    status_subresource=True,
)  # fmt: skip
HYPER_NODE: Final = Kind(
    "hypernode", group="topology.volcano.sh", version="v1alpha1", kind="HyperNode",
    plural="hypernodes", namespaced=False, type=HyperNode, short_names=("hn",),
    status_subresource=True,
)  # fmt: skip
REPLICA_SET: Final = Kind(
    "replicaset", group="apps", version="v1", kind="ReplicaSet", plural="replicasets",
    namespaced=True, type=ReplicaSet, short_names=("rs",), status_subresource=True,
)  # fmt: skip
STATEFUL_SET: Final = Kind(
    "statefulset", group="apps", version="v1", kind="StatefulSet", plural="statefulsets",
    namespaced=True, type=StatefulSet, short_names=("sts",), status_subresource=True,
)  # fmt: skip
DAEMON_SET: Final = Kind(
    "daemonset", group="apps", version="v1", kind="DaemonSet", plural="daemonsets",
    namespaced=True, type=DaemonSet, short_names=("ds",), status_subresource=True,
)  # fmt: skip
K8S_JOB: Final = Kind(
    "k8sjob", group="batch", version="v1", kind="Job", plural="jobs", namespaced=True,
    type=BatchJob, status_subresource=True,
)  # fmt: skip
NETWORK_POLICY: Final = Kind(
    "networkpolicy", group="networking.k8s.io", version="v1", kind="NetworkPolicy",
    plural="networkpolicies", namespaced=True, type=NetworkPolicy, short_names=("netpol",),
)  # fmt: skip
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    "persistentvolumeclaim", group="", version="v1", kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims", namespaced=True, type=PersistentVolumeClaim,
    short_names=("pvc",), status_subresource=True,
)  # fmt: skip
RESOURCE_QUOTA: Final = Kind(
    "resourcequota", group="", version="v1", kind="ResourceQuota", plural="resourcequotas",
    namespaced=True, type=ResourceQuota, short_names=("quota",), status_subresource=True,
)  # fmt: skip
POD_DISRUPTION_BUDGET: Final = Kind(
    "poddisruptionbudget", group="policy", version="v1", kind="PodDisruptionBudget",
    plural="poddisruptionbudgets", namespaced=True, type=PodDisruptionBudget,
    short_names=("pdb",), status_subresource=True,
)  # fmt: skip
PERSISTENT_VOLUME: Final = Kind(
    "persistentvolume", group="", version="v1", kind="PersistentVolume",
    plural="persistentvolumes", namespaced=False, type=PersistentVolume,
    short_names=("pv",), status_subresource=True,
)  # fmt: skip
STORAGE_CLASS: Final = Kind(
    "storageclass", group="storage.k8s.io", version="v1", kind="StorageClass",
    plural="storageclasses", namespaced=False, type=StorageClass, short_names=("sc",),
)  # fmt: skip
CSI_NODE: Final = Kind(
    "csinode", group="storage.k8s.io", version="v1", kind="CSINode", plural="csinodes",
    namespaced=False, type=CSINode,
)  # fmt: skip

KINDS: Final[tuple[Kind[Any], ...]] = (
    POD,
    NODE,
    PRIORITY_CLASS,
    NAMESPACE,
    CONFIG_MAP,
    SERVICE,
    SECRET,
    EVENT,
    LEASE,
    VC_JOB,
    VC_POD_GROUP,
    QUEUE,
    COMMAND,
    VC_CRON_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    HYPER_NODE,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    K8S_JOB,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    RESOURCE_QUOTA,
    POD_DISRUPTION_BUDGET,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    CSI_NODE,
)

_BY_TOKEN: Final = {kind.token: kind for kind in KINDS}
_BY_GVK: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}
_BY_TYPE: Final[dict[type[KubeObject], Kind[Any]]] = {kind.type: kind for kind in KINDS}


def by_token(token: str) -> Kind[Any]:
    try:
        return _BY_TOKEN[token]
    except KeyError:
        raise UnknownKind(token, f"the tokens {', '.join(_BY_TOKEN)}") from None


def by_gvk(api_version: str, kind: str) -> Kind[Any]:
    try:
        return _BY_GVK[api_version, kind]
    except KeyError:
        known = ", ".join(f"{version} {name}" for version, name in _BY_GVK)
        raise UnknownKind(f"{api_version} {kind}", known) from None


def kind_of(item: T) -> Kind[T]:
    try:
        return _BY_TYPE[type(item)]
    except KeyError:
        raise UnknownKind(
            type(item).__name__, f"the types {', '.join(map(str, _BY_TYPE))}"
        ) from None


def controller_reference(owner: KubeObject) -> OwnerReference:
    """What an object made for `owner` carries, so that it is found, and collected, with it."""
    kind = kind_of(owner)
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
