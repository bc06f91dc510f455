"""The STATUS and READY of a pod, told from what its containers report.

The phase alone says little: what people want to know is why a container waits or how it ended.
The reasons are looked for in kube's order, so that the same pod reads the same on both servers.
"""

from datetime import datetime
from typing import Any, Final

from stromboli.sandbox.documents import Document
from stromboli.sandbox.printing.ages import age_of, human_duration, instant
from stromboli.sandbox.printing.columns import NONE, Cells, Printer, headed, or_none

__all__ = ["PODS"]

_COLUMNS: Final = headed(
    "Name:string:name | Ready | Status | Restarts | Age | IP:::1 | Node:::1 | Nominated Node:::1"
    " | Readiness Gates:::1"
)
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class _Restarts:
    """How often containers were restarted, and when last."""

    def __init__(self) -> None:
        self.count = 0
        self.last: datetime | None = None

    def add(self, status: Document) -> None:
        self.count += status.get("restartCount") or 0
        ended = instant(_state(status, "lastState", "terminated").get("finishedAt"))
        if ended is not None and (self.last is None or ended > self.last):
            self.last = ended

    def told(self, now: datetime) -> str:
        if self.count and self.last is not None:
            return f"{self.count} ({human_duration((now - self.last).total_seconds())} ago)"
        return str(self.count)


def _state(status: Document, which: str, kind: str) -> Document:
    return (status.get(which) or {}).get(kind) or {}


def _is_in(status: Document, kind: str) -> bool:
    return (status.get("state") or {}).get(kind) is not None


def _has_true(status: Document, condition: str) -> bool:
    return any(
        one.get("type") == condition and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def _ended_how(terminated: Document, prefix: str = "") -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(status: Document, index: int, total: int) -> str:
    """Why this init container keeps the others waiting."""
    waiting = _state(status, "state", "waiting").get("reason")
    if _is_in(status, "terminated"):
        return _ended_how(_state(status, "state", "terminated"), "Init:")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _cells(pod: Document, now: datetime) -> Cells:
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    ready, total, reason, restarts = _progress(spec, status)
    if meta.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in _TERMINAL:
            reason = "Terminating"
    return [
        meta.get("name", ""),
        f"{ready}/{total}",
        reason,
        restarts.told(now),
        age_of(meta.get("creationTimestamp"), now),
        or_none(_address(status)),
        or_none(spec.get("nodeName")),
        or_none(status.get("nominatedNodeName")),
        _gates(spec, status),
    ]


def _address(status: Document) -> Any:
    addresses = status.get("podIPs") or ()
    return addresses[0].get("ip") if addresses else status.get("podIP")


def _gates(spec: Document, status: Document) -> str:
    gates = spec.get("readinessGates") or ()
    passed = sum(1 for gate in gates if _has_true(status, gate.get("conditionType", "")))
    return f"{passed}/{len(gates)}" if gates else NONE


def _progress(spec: Document, status: Document) -> tuple[int, int, str, _Restarts]:
    """Containers ready and wanted, the word for how it goes, and the restarts."""
    inits: list[Document] = spec.get("initContainers") or []
    sidecars = {one.get("name") for one in inits if one.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    reason = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    ready, restarts, of_sidecars, initializing = 0, _Restarts(), _Restarts(), False
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        restarts.add(one)
        sidecar = one.get("name") in sidecars
        if sidecar:
            of_sidecars.add(one)
        if _is_in(one, "terminated") and not _state(one, "state", "terminated").get("exitCode"):
            continue
        if sidecar and one.get("started"):
            ready += 1 if one.get("ready") else 0
            continue
        reason, initializing = _init_reason(one, index, len(inits)), True
        break
    if initializing and not _has_true(status, "Initialized"):
        return ready, total, reason, restarts
    running, reason = _running(status, reason, of_sidecars)
    if reason == "Completed" and running:
        reason = "Running" if _has_true(status, "Ready") else "NotReady"
    return ready + running, total, reason, of_sidecars


def _running(status: Document, reason: str, restarts: _Restarts) -> tuple[int, str]:
    """How many containers run and are ready; the first one's trouble is the pod's."""
    running = 0
    for one in reversed(status.get("containerStatuses") or []):
        restarts.add(one)
        waiting = _state(one, "state", "waiting").get("reason")
        if waiting:
            reason = waiting
        elif _is_in(one, "terminated"):
            reason = _ended_how(_state(one, "state", "terminated"))
        elif one.get("ready") and _is_in(one, "running"):
            running += 1
    return running, reason


PODS: Final = Printer(_COLUMNS, _cells)
