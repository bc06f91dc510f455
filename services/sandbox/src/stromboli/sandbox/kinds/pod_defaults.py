"""What a Pod gets when its author said nothing.

The same function completes pods on create and on every update, so a client that sends back less
than it read does not seem to change anything.
"""

from typing import Any

from stromboli.sandbox.documents import Document
from stromboli.sandbox.kinds.quantities import canonicalise

__all__ = ["default_pod", "default_pod_spec", "qos_class"]


def default_pod(pod: Document) -> None:
    spec = pod.get("spec")
    if spec is None:
        spec = pod["spec"] = {}
    default_pod_spec(spec, "Pod")


def default_pod_spec(spec: Document, kind: str) -> None:
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    host_network = spec.get("hostNetwork") is True
    for list_name in ("initContainers", "containers"):
        for container in spec.get(list_name) or ():
            _default_container(container, kind, host_network=host_network)
    _fill(spec, "restartPolicy", "Always")
    _fill(spec, "terminationGracePeriodSeconds", 30)
    if spec["terminationGracePeriodSeconds"] < 0:
        # An old mistake that kube keeps working: "at once, but gracefully".
        spec["terminationGracePeriodSeconds"] = 1
    _fill(spec, "dnsPolicy", "ClusterFirst")
    _fill(spec, "securityContext", {})
    _fill(spec, "schedulerName", "default-scheduler")
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The two names of one field, kept equal for old clients.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    canonicalise(spec.get("overhead"), kind)
    for spread in spec.get("topologySpreadConstraints") or ():
        _fill(spread, "whenUnsatisfiable", "DoNotSchedule")


def _fill(document: Document, key: str, value: Any) -> None:
    if document.get(key) in (None, ""):
        document[key] = value


def _default_container(container: Document, kind: str, *, host_network: bool) -> None:
    image = container.get("image") or ""
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(image) else "IfNotPresent"
    _fill(container, "terminationMessagePath", "/dev/termination-log")
    _fill(container, "terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        _fill(port, "protocol", "TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    canonicalise(limits, kind)
    canonicalise(resources.get("requests"), kind)
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            _fill(reference, "apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _default_probe(container[name])


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    name = image.rpartition("/")[2]
    _, colon, tag = name.partition(":")
    return not colon or tag == "latest"


def _default_probe(probe: Document) -> None:
    for key, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(key):
            probe[key] = value
    http = probe.get("httpGet")
    if http is not None:
        _fill(http, "path", "/")
        _fill(http, "scheme", "HTTP")


_FILE_MODE = 0o644
_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def _default_volume(volume: Document) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    for source in _SOURCES_WITH_MODE:
        content = volume.get(source)
        if content is not None and content.get("defaultMode") is None:
            content["defaultMode"] = _FILE_MODE
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def qos_class(spec: Document) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = False
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        requests = resources.get("requests") or {}
        limits = resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            asked = asked or request != "0" or limit != "0"
            guaranteed = guaranteed and limit not in {"0", ""} and request == limit
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
