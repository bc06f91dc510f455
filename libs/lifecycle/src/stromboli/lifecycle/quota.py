"""What pods count for in a resource quota, which is what a PodGroup's minResources hold.

For each resource of a pod: its plain name and `requests.<name>`, and `limits.<name>` where
quotas know limits; and the pod itself as `pods` and `count/pods`. A request that is missing
is the limit, as it is in the pod that the API server makes of the template.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from stromboli.api.batch import Job, TaskSpec
from stromboli.api.core import Container, PodSpec
from stromboli.api.fieldtypes import QuantityText
from stromboli.api.quantity import Quantity, parse_quantity
from stromboli.api.resources import add_resources
from stromboli.api.wire import read_template

__all__ = ["PriorityOf", "min_resources", "pod_usage"]

PriorityOf = Callable[[str], int]
"""The value of a PriorityClass by name; 0 for one that does not exist."""

_LIMITED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_PIECES: Final[dict[str, QuantityText]] = {"count/pods": "1", "pods": "1"}


def pod_usage(spec: PodSpec) -> dict[str, QuantityText]:
    """The quota usage of one pod."""
    requests = _of_pod(spec, _requests)
    limits = _of_pod(spec, lambda container: container.resources.limits)
    usage = dict(_PIECES)
    for name, amount in add_resources([requests, spec.overhead]).items():
        usage[name] = amount
        usage[f"requests.{name}"] = amount
    for name, amount in limits.items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def min_resources(job: Job, priority_of: PriorityOf) -> dict[str, QuantityText]:
    """The usage of the pods that must run together, the most important tasks first."""
    templates = {task.name: read_template(task.template).spec for task in job.spec.tasks}
    by_priority = sorted(
        job.spec.tasks,
        key=lambda task: -priority_of(templates[task.name].priority_class_name),
    )
    counts = _chosen(by_priority, job.spec.min_available)
    total: dict[str, Quantity] = {}
    for task in by_priority:
        if counts[task.name]:
            for name, amount in pod_usage(templates[task.name]).items():
                more = parse_quantity(amount) * counts[task.name]
                total[name] = total[name] + more if name in total else more
    return {name: str(total[name]) for name in sorted(total)}


def _chosen(tasks: Sequence[TaskSpec], wanted: int) -> dict[str, int]:
    """How many pods of each task make up the minimum."""
    minimum = {t.name: t.replicas if t.min_available is None else t.min_available for t in tasks}
    counts = dict.fromkeys(minimum, 0)
    if wanted >= sum(minimum.values()):
        for task in tasks:
            counts[task.name] = min(minimum[task.name], wanted)
            wanted -= counts[task.name]
    for task in tasks:
        more = min(task.replicas - counts[task.name], wanted)
        if more > 0:
            counts[task.name] += more
            wanted -= more
    return counts


def _requests(container: Container) -> Mapping[str, QuantityText]:
    return {**container.resources.limits, **container.resources.requests}


def _of_pod(
    spec: PodSpec, amounts_of: Callable[[Container], Mapping[str, QuantityText]]
) -> dict[str, QuantityText]:
    """The most that the pod needs at once: its containers together, or one that initialises."""
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    together = add_resources(amounts_of(c) for c in (*sidecars, *spec.containers))
    peaks = [together]
    for position, container in enumerate(spec.init_containers):
        if container.restart_policy != "Always":
            before = [c for c in spec.init_containers[:position] if c.restart_policy == "Always"]
            peaks.append(add_resources(amounts_of(c) for c in (*before, container)))
    return _greatest(peaks)


def _greatest(lists: Iterable[Mapping[str, str]]) -> dict[str, QuantityText]:
    greatest: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            quantity = parse_quantity(amount)
            if name not in greatest or quantity > greatest[name]:
                greatest[name] = quantity
    return {name: str(quantity) for name, quantity in greatest.items()}
