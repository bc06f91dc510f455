"""Everything that a decision about a job rests on, and what comes of it."""

from collections.abc import Mapping

import msgspec

from stromboli.api.batch import Job, JobPhase
from stromboli.contracts.outcomes import Refused
from stromboli.lifecycle.census import Member
from stromboli.lifecycle.quota import PriorityOf
from stromboli.lifecycle.world import Entry

__all__ = ["JobDecision", "Situation"]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is there when a job is decided about."""

    job: Job
    members: tuple[Member, ...] = ()
    group: Entry | None = None
    commands: tuple[Entry, ...] = ()
    queue_exists: bool = True
    shut: str = ""
    """The state of its queue, if that is not open: it starts no jobs."""
    queue_forwards: bool = False
    """The queue extends to other clusters, and the job goes there."""
    claims: frozenset[str] | None = None
    """The volume claims that the job can use; None if nobody told of any."""
    taken_claims: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Name of a claim to be made for the job → why the one that is there is not the job's."""
    made: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """(kind, name) → uid of objects that outcomes said were made; empty: deleted again."""
    vanished: tuple[Member, ...] = ()
    """Pods that were seen to go, as they were last, and not by our doing."""
    refusal: Refused | None = None
    """Why something that was asked for last time was refused."""
    was_unanswered: bool = False
    """Whether nobody knows what became of something that was asked for last time."""
    priority_of: PriorityOf = lambda _name: 0
    now: float


class JobDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Why, in words for the job's history; what is asked for is with the Asker."""

    action: str
    why: str = ""
    before: str = ""
    phase: JobPhase
    look_again_at: float | None = None
    """When time alone makes a difference: the job is to be decided about again then."""
