"""The built-in resources, one row each.

A new built-in kind is a row here, and a behaviour in `kinds/` if it does anything special.
Rows without one are stored and watched like the others: objects in, objects out.
"""

from typing import Final

from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.kinds.cluster import NAMESPACES, NODES, PRIORITY_CLASSES
from stromboli.sandbox.kinds.configuration import CONFIG_MAPS, SECRETS
from stromboli.sandbox.kinds.definitions import DEFINITIONS
from stromboli.sandbox.kinds.pods import PODS
from stromboli.sandbox.kinds.webhooks import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
)
from stromboli.sandbox.kinds.workaday import CLAIMS, EVENTS, LEASES, SERVICES, WITH_SPEC
from stromboli.sandbox.resources import DEFAULT_VERBS, Resource, Subresource

__all__ = ["BUILT_IN"]

_NOT_COLLECTIVELY: Final = tuple(verb for verb in DEFAULT_VERBS if verb != "deletecollection")
_PROXY_VERBS: Final = ("create", "delete", "get", "patch", "update")
_EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_POD_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)


def _creator(name: str, kind: str, group: str = "", version: str = "v1") -> Subresource:
    return Subresource(name=name, kind=kind, verbs=("create",), group=group, version=version)


_CORE: Final = (
    Resource(
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=_NOT_COLLECTIVELY,
        has_status=True,
        returns_deleted=True,
        name_rule="label",
        fields=("status.phase",),
        subresources=(Subresource(name="finalize", kind="Namespace", verbs=("update",)),),
        behaviour=NAMESPACES,
    ),
    Resource(
        plural="nodes",
        kind="Node",
        namespaced=False,
        short_names=("no",),
        has_status=True,
        fields=("spec.unschedulable",),
        behaviour=NODES,
        registry_path="minions",
    ),
    Resource(
        plural="pods",
        kind="Pod",
        short_names=("po",),
        categories=("all",),
        has_status=True,
        has_generation=True,
        returns_deleted=True,
        fields=_POD_FIELDS,
        subresources=(
            _creator("binding", "Binding"),
            _creator("eviction", "Eviction", "policy"),
            Subresource(name="log", kind="Pod", verbs=("get",)),
            Subresource(name="proxy", kind="PodProxyOptions", verbs=_PROXY_VERBS),
        ),
        behaviour=PODS,
    ),
    Resource(
        plural="services",
        kind="Service",
        short_names=("svc",),
        categories=("all",),
        has_status=True,
        create_on_update=True,
        returns_deleted=True,
        name_rule="label1035",
        fields=("spec.clusterIP", "spec.type"),
        subresources=(Subresource(name="proxy", kind="ServiceProxyOptions", verbs=_PROXY_VERBS),),
        behaviour=SERVICES,
        registry_path="services/specs",
    ),
    Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",), behaviour=CONFIG_MAPS),
    Resource(plural="secrets", kind="Secret", fields=("type",), behaviour=SECRETS),
    Resource(
        plural="events",
        kind="Event",
        short_names=("ev",),
        create_on_update=True,
        fields=_EVENT_FIELDS,
        behaviour=EVENTS,
    ),
    Resource(
        plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",), returns_deleted=True
    ),
    Resource(
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        short_names=("pvc",),
        has_status=True,
        returns_deleted=True,
        behaviour=CLAIMS,
    ),
    Resource(
        plural="persistentvolumes",
        kind="PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        has_status=True,
        returns_deleted=True,
        behaviour=WITH_SPEC,
    ),
    Resource(
        plural="resourcequotas",
        kind="ResourceQuota",
        short_names=("quota",),
        has_status=True,
        returns_deleted=True,
        behaviour=WITH_SPEC,
    ),
    Resource(
        plural="limitranges",
        kind="LimitRange",
        short_names=("limits",),
        create_on_update=True,
        behaviour=WITH_SPEC,
    ),
    Resource(plural="endpoints", kind="Endpoints", short_names=("ep",), create_on_update=True),
    Resource(
        plural="replicationcontrollers",
        kind="ReplicationController",
        short_names=("rc",),
        orphan_by_default=True,
        categories=("all",),
        has_status=True,
        has_generation=True,
        behaviour=WITH_SPEC,
    ),
    Resource(plural="podtemplates", kind="PodTemplate", has_generation=True, returns_deleted=True),
)


_SCALE: Final = (
    Subresource(
        name="scale",
        kind="Scale",
        verbs=("get", "patch", "update"),
        group="autoscaling",
        version="v1",
    ),
)
_SCALED: Final = frozenset({"deployments", "replicasets", "statefulsets"})


def _workload(plural: str, kind: str, short: str, group: str = "apps") -> Resource:
    return Resource(
        group=group,
        plural=plural,
        kind=kind,
        short_names=(short,) if short else (),
        categories=("all",),
        has_status=True,
        has_generation=True,
        subresources=_SCALE if plural in _SCALED else (),
        orphan_by_default=plural == "jobs",
        behaviour=WITH_SPEC,
    )


def _webhooks(plural: str, kind: str, behaviour: Behaviour) -> Resource:
    return Resource(
        group="admissionregistration.k8s.io",
        plural=plural,
        kind=kind,
        namespaced=False,
        categories=("api-extensions",),
        has_generation=True,
        behaviour=behaviour,
    )


def _rbac(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(
        group="rbac.authorization.k8s.io",
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        create_on_update=True,
        name_rule="path",
    )


_GROUPS: Final = (
    Resource(
        group="scheduling.k8s.io",
        plural="priorityclasses",
        kind="PriorityClass",
        namespaced=False,
        short_names=("pc",),
        has_generation=True,
        behaviour=PRIORITY_CLASSES,
    ),
    Resource(
        group="coordination.k8s.io",
        plural="leases",
        kind="Lease",
        unconditional_update=False,
        create_on_update=True,
        behaviour=LEASES,
    ),
    Resource(
        group="apiextensions.k8s.io",
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        has_status=True,
        has_generation=True,
        unconditional_update=False,
        behaviour=DEFINITIONS,
    ),
    Resource(
        group="policy",
        plural="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        short_names=("pdb",),
        has_status=True,
        has_generation=True,
        unconditional_update=False,
        behaviour=WITH_SPEC,
    ),
    _workload("jobs", "Job", "", "batch"),
    _workload("cronjobs", "CronJob", "cj", "batch"),
    _workload("deployments", "Deployment", "deploy"),
    _workload("replicasets", "ReplicaSet", "rs"),
    _workload("statefulsets", "StatefulSet", "sts"),
    _workload("daemonsets", "DaemonSet", "ds"),
    Resource(group="apps", plural="controllerrevisions", kind="ControllerRevision"),
    Resource(
        group="networking.k8s.io",
        plural="networkpolicies",
        singular="networkpolicy",
        kind="NetworkPolicy",
        short_names=("netpol",),
        has_generation=True,
        behaviour=WITH_SPEC,
    ),
    Resource(
        group="storage.k8s.io",
        plural="storageclasses",
        singular="storageclass",
        kind="StorageClass",
        namespaced=False,
        short_names=("sc",),
        returns_deleted=True,
    ),
    Resource(group="storage.k8s.io", plural="csinodes", kind="CSINode", namespaced=False),
    Resource(group="discovery.k8s.io", plural="endpointslices", kind="EndpointSlice"),
    _webhooks(
        "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", MUTATING_CONFIGURATIONS
    ),
    _webhooks(
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        VALIDATING_CONFIGURATIONS,
    ),
    _rbac("roles", "Role", namespaced=True),
    _rbac("rolebindings", "RoleBinding", namespaced=True),
    _rbac("clusterroles", "ClusterRole", namespaced=False),
    _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
)

BUILT_IN: Final = _CORE + _GROUPS
