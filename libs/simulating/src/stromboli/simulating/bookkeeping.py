"""Keep the books of a run: see every change of the cluster, and note what it means.

Every change of an object comes here once. Times in the books are virtual seconds since the
beginning of the run.
"""

from dataclasses import dataclass, field
from typing import Final

from stromboli.api.batch import Job, JobPhase
from stromboli.api.core import Node, Pod
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import PodGroup
from stromboli.api.wellknown import DEFAULT_QUEUE, GROUP_NAME, JOB_NAME, VOLCANO_GROUP_NAME
from stromboli.api.wire import read_template
from stromboli.lifecycle.phases import FINISHED
from stromboli.scheduling.pods import JobKey, read_task
from stromboli.scheduling.resources import Amounts, added, amounts_of, times
from stromboli.simulating.clocks import Clocks, seconds
from stromboli.simulating.gangs import Gang
from stromboli.simulating.timeline import Timeline, add_amounts

__all__ = ["Bookkeeper", "JobRecord"]

_NOBODY: Final[frozenset[str]] = frozenset()
_ENDING: Final = frozenset(
    {JobPhase.COMPLETING, JobPhase.TERMINATING, JobPhase.ABORTING, *FINISHED}
)


@dataclass(slots=True)
class JobRecord:
    """What became of one job."""

    namespace: str
    name: str
    queue: str
    least: int
    submitted_s: float
    wants: Amounts
    """All its pods together."""
    gang: Gang
    phase: str = ""
    started_s: float | None = None
    """When it worked for the first time."""
    finished_s: float | None = None
    wanted: dict[str, int] = field(default_factory=dict[str, int])
    """What of it is noted in the timeline."""
    counted: tuple[bool, bool] = (False, False)
    """Whether it counts as waiting and as working now."""

    @property
    def key(self) -> JobKey:
        return (self.namespace, self.name)

    @property
    def wait_s(self) -> float | None:
        return None if self.started_s is None else self.started_s - self.submitted_s


class Bookkeeper:
    """Watches a cluster."""

    def __init__(self, begin: float) -> None:
        self.timeline = Timeline()
        self.clocks = Clocks()
        self.jobs: dict[JobKey, JobRecord] = {}
        self.finished = 0
        """Jobs that are over."""
        self.changes = 0
        """How many changes were seen: when it stands still, so does the cluster."""
        self.job_of: dict[tuple[str, str], JobKey] = {}
        """The job of every pod that was ever there, by namespace and name."""
        self._begin = begin
        self._others: dict[tuple[str, str], Gang] = {}
        """Gangs that are no Jobs: of bare PodGroups, and single pods."""
        self._groups: dict[tuple[str, str], tuple[str, int]] = {}
        """Queue and minimum of every PodGroup."""
        self._held: dict[JobKey, tuple[int, int]] = {}

    @property
    def is_any_open(self) -> bool:
        """Whether some job is not over."""
        return self.finished < len(self.jobs)

    def saw(
        self, moment: float, _kind: str, before: KubeObject | None, after: KubeObject | None
    ) -> None:
        """A change of the cluster, at a moment of its clock."""
        now = seconds(moment, self._begin)
        self.changes += 1
        match after or before:
            case Pod():
                self._pod(before, after, now)
            case Job() as job:
                self._job(job, now, is_gone=after is None)
            case Node():
                self._node(before, after, now)
            case PodGroup() as group:
                metadata = group.metadata
                least = (group.spec.queue or DEFAULT_QUEUE, group.spec.min_member)
                self._groups[metadata.namespace, metadata.name] = least
            case _:
                pass

    # Nodes.

    def _node(self, before: KubeObject | None, after: KubeObject | None, now: float) -> None:
        for node, sign in ((before, -1), (after, 1)):
            if isinstance(node, Node):
                offered = amounts_of(node.metadata.name, node.status.allocatable)
                add_amounts(self.timeline.capacity, now, offered, sign)

    # Jobs.

    def _job(self, job: Job, now: float, *, is_gone: bool) -> None:
        key = (job.metadata.namespace, job.metadata.name)
        record = self.jobs.get(key)
        if record is None:
            record = self.jobs[key] = _record(job, now)
        record.phase = job.status.state.phase or JobPhase.PENDING
        is_over = is_gone or record.phase in FINISHED
        if is_over and record.finished_s is None:
            record.finished_s = now
            self.finished += 1
        self._count_job(record, now)
        self._count_wanted(record, now)

    def _count_wanted(self, record: JobRecord, now: float) -> None:
        """All that its pods ask for, but for those that have done their work."""
        line, done = self.timeline.queue(record.queue), record.gang.done
        for name, units in record.wants:
            wanted = units - done.get(name, 0) if record.finished_s is None else 0
            was = record.wanted.get(name, 0)
            if wanted != was:
                record.wanted[name] = wanted
                add_amounts(line.wanted, now, ((name, wanted - was),))

    def _count_job(self, record: JobRecord, now: float) -> None:
        line = self.timeline.queue(record.queue)
        is_open, works = record.finished_s is None, record.gang.works
        if works and record.started_s is None:
            record.started_s = now
        counted = (is_open and not works, is_open and works)
        for steps, was, is_so in zip(
            (line.waiting, line.working), record.counted, counted, strict=True
        ):
            if was != is_so:
                steps.add(now, 1 if is_so else -1)
        record.counted = counted

    # Pods.

    def _pod(self, before: KubeObject | None, after: KubeObject | None, now: float) -> None:
        pod = after or before
        if not isinstance(pod, Pod):
            return
        record = self.jobs.get((pod.metadata.namespace, _job_of(pod)))
        gang = record.gang if record is not None else self._other(pod)
        done = gang.succeeded
        if record is not None and before is None:
            self.job_of[pod.metadata.namespace, pod.metadata.name] = record.key
        if isinstance(after, Pod):
            moved = gang.see(after, self.clocks, now)
            takes_room = bool(after.spec.node_name) and after.status.phase not in _ENDED_PODS
            self._take(gang.queue, moved, now, 1 if takes_room else -1)
        else:
            missed = record is not None and record.phase not in _ENDING
            self._take(gang.queue, gang.lose(pod, self.clocks, now, counts=missed), now, -1)
        if record is not None:
            if gang.succeeded != done:
                self._count_wanted(record, now)
            self._count_job(record, now)
            self._count_held(record, now)

    def _take(self, queue: str, request: Amounts | None, now: float, sign: int) -> None:
        if request is not None:
            add_amounts(self.timeline.queue(queue).allocated, now, request, sign)

    def _count_held(self, record: JobRecord, now: float) -> None:
        in_vain = record.gang.placed if record.gang.is_short else 0
        held = (in_vain, 0) if record.started_s is None else (0, in_vain)
        was = self._held.get(record.key, (0, 0))
        if held != was:
            self._held[record.key] = held
            self.timeline.held.add(now, held[0] - was[0])
            self.timeline.crippled.add(now, held[1] - was[1])

    def _other(self, pod: Pod) -> Gang:
        """The gang of a pod without a job; one without a group is alone."""
        annotations, namespace = pod.metadata.annotations, pod.metadata.namespace
        group = annotations.get(GROUP_NAME) or annotations.get(VOLCANO_GROUP_NAME) or ""
        queue, least = self._groups.get((namespace, group), (DEFAULT_QUEUE, 1))
        key = (namespace, f"group/{group}" if group else f"pod/{pod.metadata.name}")
        gang = self._others.setdefault(key, Gang(queue, least))
        gang.queue, gang.least = queue, least
        return gang


_ENDED_PODS: Final = frozenset({"Succeeded", "Failed"})


def _record(job: Job, now: float) -> JobRecord:
    queue, least = job.spec.queue or DEFAULT_QUEUE, job.spec.min_available
    return JobRecord(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        queue=queue,
        least=least,
        submitted_s=now,
        wants=added(
            times(_request(Pod(spec=read_template(task.template).spec)), task.replicas)
            for task in job.spec.tasks
        ),
        gang=Gang(queue, least),
    )


def _request(pod: Pod) -> Amounts:
    return read_task(pod, _NOBODY).kind.request


def _job_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(JOB_NAME) or pod.metadata.labels.get(JOB_NAME, "")
