"""Which Pods are refused, and why: the rules people meet, in kube's words.

Not every rule of the real server is here, only the essentials: names, images, ports, resources,
volumes, policies, tolerations. What passes here and not there is a difference to be found by
the contract suite, not a promise.
"""

from typing import Any, Final

from stromboli.sandbox import causes
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document
from stromboli.sandbox.kinds.quantities import resource_causes
from stromboli.sandbox.metadata import label_causes
from stromboli.sandbox.names import (
    label_key_problems,
    label_problems,
    port_name_problems,
    subdomain_problems,
)

__all__ = ["pod_causes", "pod_spec_causes"]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("FallbackToLogsOnError", "File")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("Equal", "Exists")


def pod_causes(pod: Document) -> list[Cause]:
    return pod_spec_causes(pod["spec"], "spec")


def pod_spec_causes(spec: Document, path: str) -> list[Cause]:
    found: list[Cause] = []
    volumes = _volume_causes(spec.get("volumes") or [], f"{path}.volumes", found)
    containers: list[Document] = spec.get("containers") or []
    init_containers: list[Document] = spec.get("initContainers") or []
    if not containers:
        found.append(causes.required(f"{path}.containers"))
    seen: set[str] = set()
    for index, container in enumerate(containers):
        _container_causes(container, f"{path}.containers[{index}]", volumes, seen, found)
    for index, container in enumerate(init_containers):
        _container_causes(container, f"{path}.initContainers[{index}]", volumes, seen, found)
    _supported(spec, "restartPolicy", _RESTART_POLICIES, path, found)
    _supported(spec, "dnsPolicy", _DNS_POLICIES, path, found)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        detail = "must be between 1 and 2147483647, inclusive"
        found.append(causes.invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    found += label_causes(spec.get("nodeSelector"), f"{path}.nodeSelector")
    for key, rule in (("nodeName", subdomain_problems), ("hostname", label_problems)):
        value = spec.get(key)
        if value:
            found += [causes.invalid(f"{path}.{key}", value, problem) for problem in rule(value)]
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        _toleration_causes(toleration, f"{path}.tolerations[{index}]", found)
    _affinity_causes(spec.get("affinity") or {}, f"{path}.affinity", found)
    _gate_causes(spec.get("schedulingGates") or [], f"{path}.schedulingGates", found)
    return found


def _supported(
    document: Document, key: str, supported: tuple[str, ...], path: str, found: list[Cause]
) -> None:
    value = document.get(key)
    if value is not None and value not in supported:
        found.append(causes.not_supported(f"{path}.{key}", value, supported))


def _volume_causes(volumes: list[Document], path: str, found: list[Cause]) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        field = f"{path}[{index}].name"
        _name_causes(name, field, names, found)
        names.add(name)
    return names


def _name_causes(name: str, field: str, taken: set[str], found: list[Cause]) -> None:
    if not name:
        found.append(causes.required(field))
        return
    found += [causes.invalid(field, name, problem) for problem in label_problems(name)]
    if name in taken:
        found.append(causes.duplicate(field, name))


def _container_causes(
    container: Document, path: str, volumes: set[str], seen: set[str], found: list[Cause]
) -> None:
    name = container.get("name", "")
    _name_causes(name, f"{path}.name", seen, found)
    seen.add(name)
    image = container.get("image", "")
    if not image:
        found.append(causes.required(f"{path}.image"))
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        found.append(causes.invalid(f"{path}.image", image, detail))
    _port_causes(container.get("ports") or [], f"{path}.ports", found)
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            found.append(causes.required(f"{path}.env[{index}].name"))
        elif "=" in variable["name"]:
            detail = "a valid environment variable name must consist only of printable ASCII"
            detail += " characters other than '='"
            found.append(causes.invalid(f"{path}.env[{index}].name", variable["name"], detail))
    _mount_causes(container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes, found)
    _supported(container, "imagePullPolicy", _PULL_POLICIES, path, found)
    _supported(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path, found)
    found += resource_causes(container.get("resources") or {}, f"{path}.resources")


def _port_causes(ports: list[Document], path: str, found: list[Cause]) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field = f"{path}[{index}]"
        name = port.get("name")
        if name:
            found += [causes.invalid(f"{field}.name", name, p) for p in port_name_problems(name)]
            if name in names:
                found.append(causes.duplicate(f"{field}.name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            found.append(causes.required(f"{field}.containerPort"))
        else:
            _port_number_causes(number, f"{field}.containerPort", found)
        if port.get("hostPort"):
            _port_number_causes(port["hostPort"], f"{field}.hostPort", found)
        _supported(port, "protocol", _PROTOCOLS, field, found)


def _port_number_causes(number: int, field: str, found: list[Cause]) -> None:
    if not 1 <= number <= 65535:
        detail = "must be between 1 and 65535, inclusive"
        found.append(causes.invalid(field, number, detail))


def _mount_causes(mounts: list[Document], path: str, volumes: set[str], found: list[Cause]) -> None:
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(causes.required(f"{path}[{index}].name"))
        elif name not in volumes:
            found.append(causes.not_found(f"{path}[{index}].name", name))
        if not place:
            found.append(causes.required(f"{path}[{index}].mountPath"))
        elif place in taken:
            field = f"{path}[{index}].mountPath"
            found.append(causes.invalid(field, place, "must be unique"))
        taken.add(place)


def _toleration_causes(toleration: Document, path: str, found: list[Cause]) -> None:
    key: Any = toleration.get("key") or ""
    operator = toleration.get("operator") or "Equal"
    effect = toleration.get("effect") or ""
    if key:
        found += [causes.invalid(f"{path}.key", key, p) for p in label_key_problems(key)]
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and'
        found.append(causes.invalid(f"{path}.operator", operator, f'{detail} all keys"'))
    if operator not in _OPERATORS:
        found.append(causes.not_supported(f"{path}.operator", operator, _OPERATORS))
    elif operator == "Exists" and toleration.get("value"):
        detail = "value must be empty when `operator` is 'Exists'"
        found.append(causes.invalid(f"{path}.operator", toleration["value"], detail))
    if effect and effect not in _EFFECTS:
        found.append(causes.not_supported(f"{path}.effect", effect, _EFFECTS))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(causes.invalid(f"{path}.effect", effect, detail))


def _affinity_causes(affinity: Document, path: str, found: list[Cause]) -> None:
    node = affinity.get("nodeAffinity") or {}
    needed = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if needed is not None and not needed.get("nodeSelectorTerms"):
        field = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        detail = "must have at least one node selector term"
        found.append(causes.required(f"{field}.nodeSelectorTerms", detail))


def _gate_causes(gates: list[Document], path: str, found: list[Cause]) -> None:
    names: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        field = f"{path}[{index}]"
        found += [causes.invalid(field, name, problem) for problem in label_key_problems(name)]
        if name in names:
            found.append(causes.duplicate(field, name))
        names.add(name)
