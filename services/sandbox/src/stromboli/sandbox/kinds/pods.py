"""Pods: how they start, what of them may change, and which priority they have."""

from typing import Final

from stromboli.sandbox import causes, statuses
from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.kinds.pod_defaults import default_pod, qos_class
from stromboli.sandbox.kinds.pod_shape import PodShape
from stromboli.sandbox.kinds.pod_validation import pod_causes
from stromboli.sandbox.store import Store

__all__ = ["PODS", "PRIORITY_CLASSES_KEY"]

PRIORITY_CLASSES_KEY: Final = "scheduling.k8s.io/priorityclasses"

_SPEC_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)


def _begin(pod: Document) -> None:
    """A new pod has done nothing yet, whatever its author wrote into the status."""
    spec = pod["spec"]
    status: Document = {"phase": "Pending", "qosClass": qos_class(spec)}
    pod["status"] = status
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _keep_status_facts(new: Document, old: Document) -> None:
    """The status endpoint reports progress; owners and the quality of service are not its."""
    status = new.setdefault("status", {})
    quality = old.get("status", {}).get("qosClass")
    if quality:
        status["qosClass"] = quality
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    owners = old["metadata"].get("ownerReferences")
    new["metadata"].pop("ownerReferences", None)
    if owners:
        new["metadata"]["ownerReferences"] = owners


def _update_causes(new: Document, old: Document) -> list[Cause]:
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return []
    found: list[Cause] = []
    allowed = dict(spec)
    for name in ("containers", "initContainers"):
        kept = _with_old_images(spec.get(name) or [], before.get(name) or [])
        if kept:
            allowed[name] = kept
    _check_deadline(spec, before, found)
    _check_tolerations(spec, before, found)
    _check_gates(spec, before, found)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take_from(allowed, before, name)
    if before.get("schedulingGates"):
        # While it is gated nobody has looked at the pod, so where it may go can be narrowed.
        for name in ("nodeSelector", "affinity"):
            _take_from(allowed, before, name)
    if allowed != before:
        found.append(causes.forbidden("spec", _SPEC_IMMUTABLE))
    return found


def _take_from(allowed: Document, before: Document, name: str) -> None:
    allowed.pop(name, None)
    if name in before:
        allowed[name] = before[name]


def _with_old_images(containers: list[Document], before: list[Document]) -> list[Document]:
    if len(containers) != len(before):
        return containers
    return [
        {**container, "image": old.get("image")}
        for container, old in zip(containers, before, strict=True)
    ]


def _check_deadline(spec: Document, before: Document, found: list[Cause]) -> None:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if new is None and old is not None:
        found.append(causes.invalid(field, new, "must not update from a positive integer to nil"))
    elif new is not None and old is not None and new > old:
        found.append(causes.invalid(field, new, "must be less than or equal to previous value"))


def _check_tolerations(spec: Document, before: Document, found: list[Cause]) -> None:
    new = spec.get("tolerations") or []
    if any(toleration not in new for toleration in before.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        found.append(causes.forbidden("spec.tolerations", detail))


def _check_gates(spec: Document, before: Document, found: list[Cause]) -> None:
    old = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for gate in spec.get("schedulingGates") or ():
        if gate.get("name") not in old:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(causes.forbidden("spec.schedulingGates", detail))
            return


def _admit(pod: Document, store: Store) -> None:
    _resolve_priority(pod, store)
    _tolerate_short_outages(pod["spec"])


def _tolerate_short_outages(spec: Document) -> None:
    """A pod stays five minutes on a node that is not ready, unless it says otherwise."""
    tolerations: list[Document] = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if not any(
            (toleration.get("key") or key) == key
            and (toleration.get("effect") or "NoExecute") == "NoExecute"
            for toleration in tolerations
        )
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _resolve_priority(pod: Document, store: Store) -> None:
    """Set spec.priority from the named class, the default class, or zero."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    bucket = store.bucket(PRIORITY_CLASSES_KEY)
    chosen: Document | None = None
    if name:
        stored = bucket.objects.get(("", name))
        if stored is None:
            raise _forbidden(pod, f"no PriorityClass with name {name} was found")
        chosen = decode(stored.body)
    else:
        for stored in bucket.objects.values():
            if b'"globalDefault":true' in stored.body:
                candidate = decode(stored.body)
                if chosen is None or candidate.get("value", 0) < chosen.get("value", 0):
                    chosen = candidate
    value, policy = 0, "PreemptLowerPriority"
    if chosen is not None:
        value = chosen.get("value", 0)
        policy = chosen.get("preemptionPolicy", policy)
        spec["priorityClassName"] = chosen["metadata"]["name"]
    if spec.get("priority") not in {None, value}:
        raise _forbidden(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod"
            f" spec; priority admission controller computed {value} from the given PriorityClass"
            " name",
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _forbidden(pod: Document, why: str) -> Exception:
    return statuses.forbidden("", "pods", pod["metadata"].get("name", ""), why)


def _grace_seconds(pod: Document, asked: int | None) -> int:
    """How long a pod may take to die: nobody needs to stop one that does not run."""
    phase = pod.get("status", {}).get("phase")
    if not pod["spec"].get("nodeName") or phase in {"Succeeded", "Failed"}:
        return 0
    if asked is not None:
        return asked
    return pod["spec"].get("terminationGracePeriodSeconds", 30)


PODS: Final = Behaviour(
    shape=PodShape,
    default=default_pod,
    prepare_create=_begin,
    prepare_status=_keep_status_facts,
    validate=pod_causes,
    validate_update=_update_causes,
    admit_create=_admit,
    grace_seconds=_grace_seconds,
)
