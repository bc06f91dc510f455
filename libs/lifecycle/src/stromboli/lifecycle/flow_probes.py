"""Whether a job is of use to those that wait for it, although it is not complete.

A job that answers at a port, or whose pods are all in some phase, lets its dependants start
while it runs (a parameter server, say). Which pods have to answer follows from the facts; that
they do, only asking tells, so what is not known is returned as questions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from stromboli.api.batch import Job, JobPhase
from stromboli.api.core import Pod
from stromboli.api.flow import HttpGet, Probe, TaskStatus, TcpSocket
from stromboli.api.wellknown import TASK_SPEC
from stromboli.contracts import stimuli

__all__ = ["Answer", "ProbeResult", "judge"]

_AT_WORK: Final = frozenset({JobPhase.PENDING, JobPhase.RUNNING, JobPhase.COMPLETING})
_GOOD_FOR_S: Final = 30.0
_AGAIN_AFTER_S: Final = 1.0
_ASKED_AT_ONCE: Final = 100


class Answer(msgspec.Struct, frozen=True):
    """What was heard, or None while nothing was."""

    succeeded: bool | None
    at: float


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    holds: bool
    questions: tuple[stimuli.Probe, ...] = ()
    look_again_at: float | None = None


def judge(
    probe: Probe,
    job: Job,
    pods: Sequence[Pod],
    answers: Mapping[str, Answer],
    *,
    key: str,
    now: float,
) -> ProbeResult:
    """Do all the probes hold that are about tasks of this job? If none is, they do not."""
    tasks = {task.name: task.replicas for task in job.spec.tasks if task.replicas}
    statuses = [one for one in probe.task_status_list if _is_about(one, tasks)]
    calls = [one for one in (*probe.http_get_list, *probe.tcp_socket_list) if _is_about(one, tasks)]
    if job.status.state.phase not in _AT_WORK or not (statuses or calls):
        return ProbeResult(holds=False)
    if not all(_is_in_phase(status, job, tasks) for status in statuses):
        return ProbeResult(holds=False)  # the job's own changes will bring it back
    questions: list[stimuli.Probe] = []
    for call in calls:
        found = _pods_of(call, tasks, pods)
        if found is None:
            return ProbeResult(holds=False)
        questions += (_question(call, pod, key) for pod in found)
    open_ = [one for one in questions if not _is_good(answers.get(one.id), now)]
    if not open_:
        return ProbeResult(holds=True)
    return ProbeResult(
        holds=False,
        questions=tuple(_askable(open_, answers, now))[:_ASKED_AT_ONCE],
        look_again_at=now + _AGAIN_AFTER_S,
    )


def _is_about(one: HttpGet | TcpSocket | TaskStatus, tasks: Mapping[str, int]) -> bool:
    """A probe without a task is about all of them."""
    return one.task_name in tasks if one.task_name else bool(tasks)


def _is_in_phase(status: TaskStatus, job: Job, tasks: Mapping[str, int]) -> bool:
    counted = job.status.task_status_count
    for name, replicas in tasks.items():
        if status.task_name in {"", name}:
            state = counted.get(name)
            if state is None or state.phase.get(status.phase, 0) < replicas:
                return False
    return True


def _pods_of(
    call: HttpGet | TcpSocket, tasks: Mapping[str, int], pods: Sequence[Pod]
) -> list[Pod] | None:
    """The pods that have to answer; None while some of them cannot."""
    wanted = sum(number for name, number in tasks.items() if call.task_name in {"", name})
    found = [
        pod
        for pod in pods
        if call.task_name in {"", pod.metadata.annotations.get(TASK_SPEC, "")}
        and pod.status.phase == "Running"
        and pod.status.pod_ip
        and pod.metadata.deletion_timestamp is None
    ]
    return found if len(found) >= wanted else None


def _question(call: HttpGet | TcpSocket, pod: Pod, key: str) -> stimuli.Probe:
    path, headers = "", ()
    if isinstance(call, HttpGet):
        path = call.path if call.path.startswith("/") else f"/{call.path}"
        header = call.http_header
        headers = ((header.name, header.value),) if header is not None and header.name else ()
    return stimuli.Probe(
        id=f"{key} {pod.metadata.uid} {pod.status.pod_ip}:{call.port}{path}",
        key=key,
        host=pod.status.pod_ip,
        port=call.port,
        path=path,
        headers=headers,
    )


def _is_good(answer: Answer | None, now: float) -> bool:
    return answer is not None and answer.succeeded is True and answer.at + _GOOD_FOR_S > now


def _askable(
    questions: Sequence[stimuli.Probe], answers: Mapping[str, Answer], now: float
) -> Iterator[stimuli.Probe]:
    """Those that were not asked a moment ago."""
    for question in questions:
        answer = answers.get(question.id)
        if answer is None or answer.at + _AGAIN_AFTER_S <= now:
            yield question
