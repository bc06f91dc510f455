"""flow.volcano.sh/v1alpha1: JobFlow, jobs that wait for each other, and the templates of those.

A flow's patch of a template is carried whole and without defaults: what it does not say must
not replace what the template says.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from stromboli.api.batch import JobSpec, TaskState
from stromboli.api.fieldtypes import Int32, OpaqueObject, Shape, Timestamp, allowed, one_of
from stromboli.api.meta import KubeObject

__all__ = [
    "Flow",
    "FlowDependsOn",
    "FlowJobCondition",
    "FlowJobStatus",
    "FlowPatch",
    "FlowPhase",
    "FlowState",
    "HttpGet",
    "HttpHeader",
    "JobFlow",
    "JobFlowSpec",
    "JobFlowStatus",
    "JobTemplate",
    "JobTemplateStatus",
    "Probe",
    "RetainPolicy",
    "RunningHistory",
    "TaskStatus",
    "TcpSocket",
]


class FlowPhase(StrEnum):
    SUCCEED = "Succeed"
    TERMINATING = "Terminating"
    FAILED = "Failed"
    RUNNING = "Running"
    PENDING = "Pending"


class RetainPolicy(StrEnum):
    RETAIN = "retain"
    DELETE = "delete"


class HttpHeader(Shape):
    name: str = ""
    value: str = ""


class HttpGet(Shape):
    """Every pod of the task answers a GET with a status below 400."""

    task_name: Annotated[str, allowed(maxLength=253)] = ""
    path: str = ""
    port: Annotated[Int32, allowed(minimum=0, maximum=65535)] = 0
    http_header: HttpHeader | None = None


class TcpSocket(Shape):
    """Every pod of the task accepts connections at the port."""

    task_name: Annotated[str, allowed(maxLength=253)] = ""
    port: Annotated[Int32, allowed(required=True, minimum=0, maximum=65535)] = 0


class TaskStatus(Shape):
    """Every pod of the task is in the phase."""

    task_name: Annotated[str, allowed(maxLength=253)] = ""
    phase: Annotated[str, allowed(maxLength=63)] = ""


class Probe(Shape):
    """What tells that a job is of use to those that wait for it, before it is complete."""

    http_get_list: tuple[HttpGet, ...] = ()
    tcp_socket_list: tuple[TcpSocket, ...] = ()
    task_status_list: tuple[TaskStatus, ...] = ()


class FlowDependsOn(Shape):
    targets: tuple[str, ...] = ()
    probe: Probe | None = None


class FlowPatch(Shape):
    """What is different from the template in this flow."""

    job_spec: OpaqueObject | None = None


class Flow(Shape):
    """One job of the flow, by the name of its template."""

    name: Annotated[str, allowed(required=True, minLength=1)] = ""
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None


class JobFlowSpec(Shape):
    flows: tuple[Flow, ...] = ()
    job_retain_policy: Annotated[str, one_of(RetainPolicy)] = ""


class RunningHistory(Shape):
    """A stretch of time that a job spent in one phase."""

    start_timestamp: Timestamp = None
    end_timestamp: Timestamp = None
    state: str = ""


class FlowJobStatus(Shape):
    name: str = ""
    state: str = ""
    start_timestamp: Timestamp = None
    end_timestamp: Timestamp = None
    restart_count: Annotated[Int32, allowed(minimum=0)] = 0
    running_histories: tuple[RunningHistory, ...] = ()


class FlowJobCondition(Shape):
    phase: str = ""
    create_time: Timestamp = None
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] = field(default_factory=dict)


class FlowState(Shape):
    phase: Annotated[str, one_of(FlowPhase)] = ""


class JobFlowStatus(Shape):
    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    unknown_jobs: tuple[str, ...] = field(default=(), name="unKnowJobs")  # Volcano's spelling
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: dict[str, FlowJobCondition] = field(default_factory=dict)
    state: FlowState = field(default_factory=FlowState)


class JobFlow(KubeObject):
    """Jobs made from templates, each when those it depends on have done their part."""

    spec: JobFlowSpec = field(default_factory=JobFlowSpec)
    status: JobFlowStatus = field(default_factory=JobFlowStatus)


class JobTemplateStatus(Shape):
    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(KubeObject):
    """What jobs of flows are made from."""

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobTemplateStatus = field(default_factory=JobTemplateStatus)
