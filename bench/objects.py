"""Pods and nodes of realistic size, made from the templates among the workloads.

Each is the template's JSON with its number and uid put in, so that making twenty thousand
costs no more than replacing text. `new_pod` is what a job controller sends; `stored_pod` and
`stored_node` are what an API server returns for running ones.
"""

import uuid
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import yaml

__all__ = ["WORKLOADS", "new_pod", "pod_name", "stored_node", "stored_pod"]

WORKLOADS: Final = Path(__file__).parent / "workloads"

_NUMBER: Final = b"@number@"
_UID: Final = b"@uid@"
_NAMESPACE: Final = b"@namespace@"


@cache
def _template(name: str) -> bytes:
    return msgspec.json.encode(yaml.safe_load((WORKLOADS / f"{name}.yaml").read_text()))


def _filled(template: str, number: int, namespace: str) -> bytes:
    uid = str(uuid.UUID(int=number + 1)).encode()
    return (
        _template(template)
        .replace(_NUMBER, str(number).encode())
        .replace(_UID, uid)
        .replace(_NAMESPACE, namespace.encode())
    )


def pod_name(number: int) -> str:
    """The name that the templates give to a pod."""
    return f"train-worker-{number}"


def new_pod(number: int, namespace: str) -> bytes:
    """A pod to be created."""
    return _filled("new_pod", number, namespace)


def stored_pod(number: int, namespace: str = "research") -> bytes:
    """A running pod, as an API server returns it."""
    return _filled("stored_pod", number, namespace)


def stored_node(number: int) -> bytes:
    """A node, as an API server returns it."""
    return _filled("stored_node", number, "")
