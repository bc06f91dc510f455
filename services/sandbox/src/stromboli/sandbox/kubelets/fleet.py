"""Which nodes there are: a small YAML file, or just a number.

- name: cpu            # cpu-0, cpu-1, cpu-2
  count: 3
  cpu: 8
  memory: 32Gi
  pods: 110
  labels: {zone: a}
- name: gpu
  cpu: 16
  memory: 64Gi
  gpu: 4
  taints: [{key: gpu, value: "yes", effect: NoSchedule}]
"""

import platform
from pathlib import Path
from typing import Any

import msgspec
import yaml

from stromboli.api.quantity import parse_quantity
from stromboli.sandbox.errors import ConfigError

_GPU = "nvidia.com/gpu"
_NODE_INFO = {
    "kubeletVersion": "v1.35.0-stromboli",
    "containerRuntimeVersion": "stromboli://0.1",
    "kernelVersion": platform.release(),
    "osImage": "Stromboli sandbox",
    "operatingSystem": "linux",
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(
        platform.machine(), platform.machine()
    ),
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kubeProxyVersion": "",
}


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes that are alike."""

    name: str
    count: int | None = None
    """None makes one node of exactly this name."""
    cpu: str | int | float = 8
    memory: str = "32Gi"
    gpu: int = 0
    pods: int = 110
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []

    def names(self) -> list[str]:
        if self.count is None:
            return [self.name]
        return [f"{self.name}-{index}" for index in range(self.count)]

    def capacity(self) -> dict[str, str]:
        resources = {"cpu": str(self.cpu), "memory": self.memory, "pods": str(self.pods)}
        if self.gpu:
            resources[_GPU] = str(self.gpu)
        return resources


def read_fleet(nodes: str) -> list[NodeGroup]:
    """From a number of nodes, or from the path of a YAML file."""
    if nodes.isdecimal():
        return [NodeGroup(name="node", count=int(nodes))]
    path = Path(nodes)
    try:
        document = yaml.safe_load(path.read_text())
        groups = msgspec.convert(document, list[NodeGroup])
        for group in groups:
            for quantity in group.capacity().values():
                parse_quantity(quantity)
    except OSError as problem:
        raise ConfigError(
            "--nodes", f"{nodes!r} is neither a number nor a readable file: {problem}"
        ) from problem
    except (yaml.YAMLError, ValueError) as problem:
        raise ConfigError("--nodes", f"{path}: {problem}") from problem
    return groups


def node_manifest(name: str, group: NodeGroup) -> dict[str, Any]:
    """The node as it registers; its status is reported right after."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _NODE_INFO["architecture"],
        **group.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": group.taints} if group.taints else {},
    }


def node_status(group: NodeGroup, *, now: str, port: int = 0) -> dict[str, Any]:
    """`port` is where the kubelet answers questions about its pods."""
    capacity = group.capacity()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "virtual kubelet is ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": _NODE_INFO,
        }
    }
