"""What one cycle decided, before it is turned into intents."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from stromboli.scheduling.explain import Explanation
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import JobKey, Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["Action", "Claimed", "Commit", "Decisions", "LetThrough"]


class Commit(NamedTuple):
    """Pods of one job that are bound together."""

    contender: Contender
    placements: list[Placement]


@dataclass(frozen=True, slots=True)
class Claimed:
    """Room that is being made for a job: who goes, and which of its pods wait where."""

    contender: Contender | None
    """Nobody, when the victims go for their own sake."""
    evictions: list[Eviction]
    pipelined: list[Placement]


@dataclass(frozen=True, slots=True)
class LetThrough:
    """Pods that their queue has room for, so that its gate can be taken from them."""

    contender: Contender
    tasks: list[Task]


@dataclass(slots=True)
class Decisions:
    """Filled by the actions, in the order in which they decided."""

    admitted: list[Contender] = field(default_factory=list[Contender])
    let_through: list[LetThrough] = field(default_factory=list[LetThrough])
    commits: list[Commit] = field(default_factory=list[Commit])
    claims: list[Claimed] = field(default_factory=list[Claimed])
    explanations: dict[JobKey, Explanation] = field(default_factory=dict[JobKey, Explanation])
    """Why a job is not placed; of one that runs already, why it does not grow."""
    tried: dict[JobKey, list[Placement]] = field(default_factory=dict[JobKey, list[Placement]])
    """Places that pods of a gang had found before it turned out that not all find one."""
    holding: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    """Jobs that hold room for pods that are ending; they take part in every cycle."""

    def served(self) -> set[JobKey]:
        """Jobs that got something: admission, a place, room that others make."""
        claimants = (claim.contender for claim in self.claims if claim.contender is not None)
        passing = (passing.contender for passing in self.let_through)
        bound = (commit.contender for commit in self.commits)
        return {one.key for one in (*self.admitted, *passing, *bound, *claimants)}


Action: TypeAlias = Callable[[Session, Decisions], None]
