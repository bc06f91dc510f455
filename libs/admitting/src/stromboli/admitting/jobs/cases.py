"""What the rules of jobs look at: the job, one task of it, and who asks."""

from dataclasses import dataclass

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.questions import Surroundings, UserInfo
from stromboli.api.batch import Job, TaskSpec
from stromboli.api.wellknown import DEFAULT_QUEUE

__all__ = ["JobCase", "JobChange", "TaskCase"]


@dataclass(frozen=True, slots=True)
class JobCase:
    """A job that is to be created, by itself or by something that holds its template."""

    job: Job
    name: str
    namespace: str
    user: UserInfo
    surroundings: Surroundings
    conf: AdmissionConf

    @property
    def queue(self) -> str:
        return self.job.spec.queue or DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class TaskCase:
    """One task of a job, with its place in the list."""

    job: JobCase
    task: TaskSpec
    index: int
    is_repeated: bool
    """Whether an earlier task has the same name."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job before and after."""

    old: Job
    new: Job
