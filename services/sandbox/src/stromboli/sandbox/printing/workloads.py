"""What is shown of jobs, deployments and the other owners of pods."""

from datetime import datetime
from typing import Any, Final

from stromboli.sandbox.documents import Document
from stromboli.sandbox.printing.ages import human_duration, instant
from stromboli.sandbox.printing.cluster import age, name_of, selector_text
from stromboli.sandbox.printing.columns import Cells, Printer, headed, or_none

__all__ = ["WORKLOAD_PRINTERS", "selected"]

_PODS_COLUMNS: Final = " | Containers:::1 | Images:::1"


def _containers(template: Document | None) -> tuple[str, str]:
    found: list[Document] = ((template or {}).get("spec") or {}).get("containers") or []
    names = ",".join(one.get("name", "") for one in found)
    return names, ",".join(one.get("image", "") for one in found)


def selected(selector: Document | None) -> str:
    """A label selector on one line, requirements after the plain labels."""
    given = selector or {}
    terms = [f"{key}={value}" for key, value in sorted((given.get("matchLabels") or {}).items())]
    for one in given.get("matchExpressions") or ():
        key, values = one.get("key", ""), ",".join(sorted(one.get("values") or ()))
        match one.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return or_none(",".join(terms))


def _parts(document: Document) -> tuple[Document, Document]:
    return document.get("spec") or {}, document.get("status") or {}


def _job(job: Document, now: datetime) -> Cells:
    spec, status = _parts(job)
    done, wanted, parallel = (
        status.get("succeeded", 0),
        spec.get("completions"),
        spec.get("parallelism"),
    )
    if wanted is not None:
        completions = f"{done}/{wanted}"
    else:
        completions = f"{done}/1 of {parallel}" if (parallel or 0) > 1 else f"{done}/1"
    return [
        name_of(job),
        _job_status(job, status),
        completions,
        _duration(status, now),
        age(job, now),
        *_containers(spec.get("template")),
        selected(spec.get("selector")),
    ]


def _job_status(job: Document, status: Document) -> str:
    true = {
        one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"
    }
    for condition, told in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in true:
            return told
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Running"


def _duration(status: Document, now: datetime) -> str:
    started = instant(status.get("startTime"))
    if started is None:
        return ""
    ended = instant(status.get("completionTime")) or now
    return human_duration((ended - started).total_seconds())


def _deployment(document: Document, now: datetime) -> Cells:
    spec, status = _parts(document)
    return [
        name_of(document),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(document, now),
        *_containers(spec.get("template")),
        selected(spec.get("selector")),
    ]


def _counted(document: Document, now: datetime, selector: str) -> Cells:
    spec, status = _parts(document)
    return [
        name_of(document),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(document, now),
        *_containers(spec.get("template")),
        selector,
    ]


def _replica_set(document: Document, now: datetime) -> Cells:
    return _counted(document, now, selected((document.get("spec") or {}).get("selector")))


def _replication_controller(document: Document, now: datetime) -> Cells:
    return _counted(document, now, selector_text((document.get("spec") or {}).get("selector")))


def _stateful_set(document: Document, now: datetime) -> Cells:
    spec, status = _parts(document)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [name_of(document), ready, age(document, now), *_containers(spec.get("template"))]


def _daemon_set(document: Document, now: datetime) -> Cells:
    spec, status = _parts(document)
    template_spec: Document = (spec.get("template") or {}).get("spec") or {}
    counts: list[Any] = [
        status.get(field, 0)
        for field in (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        )
    ]
    return [
        name_of(document),
        *counts,
        selector_text(template_spec.get("nodeSelector")),
        age(document, now),
        *_containers(spec.get("template")),
        selected(spec.get("selector")),
    ]


def _budget(document: Document, now: datetime) -> Cells:
    spec, status = _parts(document)
    bounds = [
        "N/A" if spec.get(field) is None else str(spec[field])
        for field in ("minAvailable", "maxUnavailable")
    ]
    return [name_of(document), *bounds, status.get("disruptionsAllowed", 0), age(document, now)]


_REPLICATED: Final = headed(
    "Name:string:name | Desired:integer | Current:integer | Ready:integer | Age"
    f"{_PODS_COLUMNS} | Selector:::1"
)

WORKLOAD_PRINTERS: Final = {
    "batch/jobs": Printer(
        headed(
            "Name:string:name | Status | Completions | Duration | Age"
            f"{_PODS_COLUMNS} | Selector:::1"
        ),
        _job,
    ),
    "apps/deployments": Printer(
        headed(
            f"Name:string:name | Ready | Up-to-date | Available | Age{_PODS_COLUMNS} | Selector:::1"
        ),
        _deployment,
    ),
    "apps/replicasets": Printer(_REPLICATED, _replica_set),
    "replicationcontrollers": Printer(_REPLICATED, _replication_controller),
    "apps/statefulsets": Printer(
        headed(f"Name:string:name | Ready | Age{_PODS_COLUMNS}"), _stateful_set
    ),
    "apps/daemonsets": Printer(
        headed(
            "Name:string:name | Desired:integer | Current:integer | Ready:integer"
            " | Up-to-date:integer | Available:integer | Node Selector | Age"
            f"{_PODS_COLUMNS} | Selector:::1"
        ),
        _daemon_set,
    ),
    "policy/poddisruptionbudgets": Printer(
        headed(
            "Name:string:name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age"
        ),
        _budget,
    ),
}
