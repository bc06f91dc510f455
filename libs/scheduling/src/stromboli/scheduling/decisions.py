"""What one cycle decided, before it is turned into intents."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from stromboli.scheduling.explain import Explanation
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Eviction, Placement

__all__ = ["Action", "Claimed", "Commit", "Decisions"]


@dataclass(frozen=True, slots=True)
class Commit:
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


@dataclass(slots=True)
class Decisions:
    """Filled by the actions, in the order in which they decided."""

    admitted: list[Contender] = field(default_factory=list[Contender])
    commits: list[Commit] = field(default_factory=list[Commit])
    claims: list[Claimed] = field(default_factory=list[Claimed])
    explanations: dict[JobKey, Explanation] = field(default_factory=dict[JobKey, Explanation])
    """Why a job is not placed; of one that runs already, why it does not grow."""
    tried: dict[JobKey, list[Placement]] = field(default_factory=dict[JobKey, list[Placement]])
    """Places that pods of a gang had found before it turned out that not all find one."""
    holding: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    """Jobs that hold room for pods that are ending; they take part in every cycle."""


Action: TypeAlias = Callable[[Session, Decisions], None]
