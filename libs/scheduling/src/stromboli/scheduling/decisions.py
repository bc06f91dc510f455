"""What one cycle decided, before it is turned into intents."""

from dataclasses import dataclass, field

from stromboli.scheduling.explain import Explanation
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.trial import Placement

__all__ = ["Commit", "Decisions"]


@dataclass(frozen=True, slots=True)
class Commit:
    """Pods of one job that are bound together."""

    contender: Contender
    placements: list[Placement]


@dataclass(slots=True)
class Decisions:
    """Filled by the actions, in the order in which they decided."""

    admitted: list[Contender] = field(default_factory=list[Contender])
    commits: list[Commit] = field(default_factory=list[Commit])
    explanations: dict[JobKey, Explanation] = field(default_factory=dict[JobKey, Explanation])
    """Why a job is not placed; of one that runs already, why it does not grow."""
    holding: dict[JobKey, None] = field(default_factory=dict[JobKey, None])
    """Jobs that hold room for pods that are ending; they take part in every cycle."""
