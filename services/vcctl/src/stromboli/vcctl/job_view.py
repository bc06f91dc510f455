"""The long description of one job that `vcctl job view` prints, line by line as Volcano's.

Two spaces per level, a tab between a name and its value. Where Go prints a zero value (no
CPU limit, no creation time of a template), so do we. `Form` is how Volcano spells From.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from stromboli.api.batch import Job, JobPhase, TaskSpec
from stromboli.api.core import Container, Event
from stromboli.api.fieldtypes import ResourceList
from stromboli.api.kinds import VC_JOB
from stromboli.api.quantity import parse_quantity
from stromboli.api.scheduling import PodGroup
from stromboli.api.wire import read_template
from stromboli.vcctl.go_text import at_level, go_json, go_slice, go_time
from stromboli.vcctl.printing import age
from stromboli.vcctl.waiting import waiting

__all__ = ["job_view"]

_VENDOR_LINES: Final = {
    "Cri . Cci . Io / Container - Type:          ": "cri.cci.io/container-type",
    "Kubernetes . Io / Availablezone:            ": "kubernetes.io/availablezone",
    "Network . Alpha . Kubernetes . Io / Network:": "network.alpha.kubernetes.io/network",
}
_NOTES: Final = "stromboli/"
"""What the controllers note there for themselves; `kubectl get -o yaml` shows it."""
_MAY_WAIT: Final = ("", JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING)
_EVENT_WIDTHS: Final = (15, 40, 30, 40, 0)
_EVENT_HEADER: Final = ("Type", "Reason", "Age", "Form", "Message")


def job_view(
    job: Job, events: Sequence[Event], now: datetime, *, pod_group: PodGroup | None = None
) -> str:
    """The answer to `vcctl job view`; with its PodGroup also why the job waits."""
    why: Iterable[str] = ()
    if pod_group is not None and job.status.state.phase in _MAY_WAIT:
        why = waiting(pod_group)
    return "\n".join((*_head(job), *_spec(job), *_status(job), *why, *_events(events, now)))


def _head(job: Job) -> Iterator[str]:
    meta = job.metadata
    yield f"Name:       \t{meta.name}"
    yield f"Namespace:  \t{meta.namespace}"
    yield f"Labels:     \t{go_json(meta.labels)}"
    yield f"Annotations:\t{go_json(meta.annotations)}"
    yield f"API Version:\t{VC_JOB.api_version}"
    yield f"Kind:       \t{VC_JOB.kind}"
    yield "Metadata:"
    yield at_level(1, f"Creation Timestamp:\t{go_time(meta.creation_timestamp)}")
    yield at_level(1, f"Generate Name:     \t{meta.generate_name}")
    yield at_level(1, f"Generation:        \t{meta.generation}")
    yield at_level(1, f"Resource Version:  \t{meta.resource_version}")
    yield at_level(1, f"UID:               \t{meta.uid}")


def _spec(job: Job) -> Iterator[str]:
    spec = job.spec
    yield "Spec:"
    yield at_level(1, f"Min Available:     \t{spec.min_available}")
    yield at_level(1, "Plugins:")
    yield at_level(2, f"Env:\t{go_slice(spec.plugins.get('env', ()))}")
    yield at_level(2, f"Ssh:\t{go_slice(spec.plugins.get('ssh', ()))}")
    yield at_level(1, f"Scheduler Name:    \t{spec.scheduler_name}")
    yield at_level(1, "Tasks:")
    for task in spec.tasks:
        yield from _task(task)


def _task(task: TaskSpec) -> Iterator[str]:
    template = read_template(task.template)
    yield at_level(2, f"Name:\t{task.name}")
    yield at_level(2, f"Replicas:\t{task.replicas}")
    yield at_level(2, "Template:")
    yield at_level(3, "Metadata:")
    yield at_level(4, "Annotations:")
    for label, key in _VENDOR_LINES.items():
        yield at_level(5, f"{label}\t{template.metadata.annotations.get(key, '')}")
    yield at_level(4, f"Creation Timestamp:\t{go_time(template.metadata.creation_timestamp)}")
    yield at_level(3, "Spec:")
    yield at_level(4, "Containers:")
    for container in template.spec.containers:
        yield from _container(container)
    yield at_level(4, "Image Pull Secrets:")
    for name in _pull_secrets(task.template):
        yield at_level(5, f"Name:     \t{name}")
    yield at_level(4, f"Restart Policy:   \t{template.spec.restart_policy}")


def _container(container: Container) -> Iterator[str]:
    yield at_level(5, "Command:")
    for word in container.command:
        yield at_level(6, word)
    yield at_level(5, f"Image:\t{container.image}")
    yield at_level(5, f"Name: \t{container.name}")
    yield at_level(5, "Ports:")
    for port in container.ports:
        yield at_level(6, f"Container Port:\t{port.container_port}")
        yield at_level(6, f"Name:          \t{port.name}")
    yield at_level(5, "Resources:")
    yield at_level(6, "Limits:")
    yield from _amounts(container.resources.limits)
    yield at_level(6, "Requests:")
    yield from _amounts(container.resources.requests)
    yield at_level(6, f"Working Dir:\t{container.working_dir}")


def _amounts(resources: ResourceList) -> Iterator[str]:
    yield at_level(7, f"Cpu:   \t{parse_quantity(resources.get('cpu', 0))}")
    yield at_level(7, f"Memory:\t{parse_quantity(resources.get('memory', 0))}")


def _pull_secrets(template: Mapping[str, Any]) -> list[str]:
    """Not in the typed view of a template: nobody decides by them."""
    secrets: list[dict[str, str]] = (template.get("spec") or {}).get("imagePullSecrets") or []
    return [secret.get("name", "") for secret in secrets]


def _status(job: Job) -> Iterator[str]:
    status = job.status
    counters = {
        "Succeeded:    ": status.succeeded,
        "Pending:      ": status.pending,
        "Running:      ": status.running,
        "Failed:       ": status.failed,
        "Terminating:  ": status.terminating,
        "Unknown:      ": status.unknown,
        "RetryCount:   ": status.retry_count,
        "Min Available:": status.min_available,
        "Version:      ": status.version,
    }
    yield "Status:"
    for label, number in counters.items():
        if number > 0:
            yield at_level(1, f"{label}\t{number}")
    yield at_level(1, "State:")
    yield at_level(2, f"Phase:\t{status.state.phase}")
    # Not in Volcano's layout, and not there when there is nothing to tell.
    if status.state.reason:
        yield at_level(2, f"Reason:\t{status.state.reason}")
    message = " ".join(status.state.message.split())
    if message:
        yield at_level(2, f"Message:\t{message}")
    resources = sorted(status.controlled_resources.items())
    if shown := [(key, value) for key, value in resources if not key.startswith(_NOTES)]:
        yield at_level(1, "Controlled Resources:")
        for key, value in shown:
            yield at_level(2, f"{key}: \t{value}")
    if status.conditions:
        yield at_level(1, "Conditions:")
        yield "    Status\tTransitionTime"
        for condition in status.conditions:
            yield at_level(2, f"{condition.status} \t{go_time(condition.last_transition_time)} ")


def _events(events: Sequence[Event], now: datetime) -> Iterator[str]:
    if not events:
        yield "Events: \t<none>"
        return
    yield "Events:"
    yield _event_line(_EVENT_HEADER)
    yield _event_line(("-------",) * len(_EVENT_HEADER))
    for event in events:
        source = ", ".join(filter(None, (event.source.component, event.source.host)))
        cells = (event.type, event.reason, _event_age(event, now), source, event.message.strip())
        yield _event_line(cells)


def _event_line(cells: Sequence[str]) -> str:
    return "\t".join(cell.ljust(w) for cell, w in zip(cells, _EVENT_WIDTHS, strict=True))


def _event_age(event: Event, now: datetime) -> str:
    first = age(event.first_timestamp or event.event_time, now)
    if event.count > 1:
        return f"{age(event.last_timestamp, now)} (x{event.count} over {first})"
    return first
