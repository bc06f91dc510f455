"""Names that a job's plugins make of the job's own, and that Kubernetes must accept.

The plugin svc names a Service after the job and gives each pod its name as host name; ray names
a Service, too. A job whose name does not do for that would be accepted and never have a pod.
"""

from collections.abc import Iterator
from typing import Final

from stromboli.admitting.jobs.cases import JobCase, JobChange, TaskCase
from stromboli.admitting.names import in_brackets, label_faults, service_name_faults
from stromboli.admitting.rules import OURS, Faults, Rule, rule
from stromboli.api.batch import Job, TaskSpec

__all__ = ["HOST_NAME_RULE", "SERVICE_NAME_RULE", "UPDATED_HOST_NAME_RULE"]

_HOST_SAYS: Final = "the plugin svc can't name the host of pod %s: %s;"
_SERVICE_NAMES: Final = {"svc": "{}", "ray": "{}-head-svc"}
"""Plugin → the Service that it makes, with the name of the job."""


@rule(
    "job-service-name",
    says=" the plugin %s can't make its Service %s: %s;",
    about="with the plugin svc (which tensorflow, mpi, pytorch and ray bring along) the name of a "
    "job begins with a letter and has no dots; with ray it has at most 54 characters",
    origin=OURS,
)
def _service_name(case: JobCase) -> Faults:
    for plugin, form in _SERVICE_NAMES.items():
        name = form.format(case.name)
        faults = service_name_faults(name) if plugin in case.job.spec.plugins else []
        if faults:
            yield plugin, name, in_brackets(faults)
            return


@rule(
    "task-host-name",
    says=_HOST_SAYS,
    about="with the plugin svc the names of all pods, `<job>-<task>-<index>`, have at most 63 "
    "characters and no dots, unless the template has a `hostname`",
    origin=OURS,
)
def _host_name(case: TaskCase) -> Faults:
    yield from _host_faults(case.job.job, case.job.name, case.task)


@rule(
    "update-host-name",
    says=_HOST_SAYS,
    about="with the plugin svc a task gets no more pods than can be named",
    origin=OURS,
    is_final=True,
)
def _updated_host_name(change: JobChange) -> Faults:
    before = {task.name: task.replicas for task in change.old.spec.tasks}
    for task in change.new.spec.tasks:
        if task.replicas > before.get(task.name, 0):
            yield from _host_faults(change.new, change.new.metadata.name, task)


SERVICE_NAME_RULE: Final[Rule[JobCase]] = _service_name
HOST_NAME_RULE: Final[Rule[TaskCase]] = _host_name
UPDATED_HOST_NAME_RULE: Final[Rule[JobChange]] = _updated_host_name


def _host_faults(job: Job, name: str, task: TaskSpec) -> Iterator[tuple[object, ...]]:
    """Of the last pod, whose name is the longest."""
    spec = task.template.get("spec")
    has_own = isinstance(spec, dict) and bool(spec.get("hostname"))
    if "svc" not in job.spec.plugins or has_own or task.replicas <= 0:
        return
    pod = f"{name}-{task.name}-{task.replicas - 1}"
    faults = label_faults(pod)
    if faults:
        yield pod, in_brackets(faults)
