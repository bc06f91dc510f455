"""What plugins may promise about themselves, so that work can be saved.

None of these changes what is decided: whoever promises nothing is asked more often.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stromboli.scheduling.pods import Task
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts

if TYPE_CHECKING:
    from stromboli.scheduling.trial import Placement

__all__ = [
    "ByField",
    "ByMinimum",
    "ConvoyListener",
    "EvenHanded",
    "Foreseeing",
    "Impartial",
    "JudgesBy",
    "JudgesVictims",
    "OwnOrder",
]


@runtime_checkable
class ConvoyListener(Protocol):
    """Is quicker when it hears of many placements at once; what it knows then is the same."""

    def placed_together(self, placements: "Sequence[Placement]") -> None:
        """Pods of one class, for jobs of one queue, each of them once."""
        ...


@runtime_checkable
class Impartial(Protocol):
    """Judges a claim by its queue, its request, its priorities and what its job holds only.

    Then claims that are alike in these need not be judged one by one.
    """

    is_impartial: bool


@runtime_checkable
class JudgesBy(Protocol):
    """Names victims by their own class and by how many of their "job", or "queue", went before.

    Each that went before makes it stricter; what else is on the list does not matter, but where it
    is each "pod" that does.
    """

    judges_by: str


@runtime_checkable
class JudgesVictims(Protocol):
    """Looks at who would go and not at who comes, so it gives no reason why anybody should.

    Victims that only such plugins name could evict the claimant for the same reason, and so on.
    """

    judges_victims: bool


@runtime_checkable
class EvenHanded(Protocol):
    """Has for jobs that hold nothing and ask for the same in one queue the same answers.

    And within one cycle it becomes only stricter to them the more others get. Then of jobs that
    are alike only the first need be asked, until that one gets something.
    """

    is_even_handed: bool


@runtime_checkable
class OwnOrder(Protocol):
    """A job's place in this plugin's order changes only by what happens to that very job.

    Then jobs that wait for their turn need not be asked again after every other job's turn.
    """

    order_is_own: bool


@runtime_checkable
class ByField(Protocol):
    """A `TaskOrder` that only looks at one thing: pods that have that in common are equal."""

    ordered_by: Callable[[Task], Any]


@runtime_checkable
class ByMinimum(Protocol):
    """Agrees as soon as the job has its minimums (`Contender.is_ready`), and asks for no more."""

    is_by_minimum: bool


@runtime_checkable
class Foreseeing(Protocol):
    """An `Overused` that can tell in advance when a queue will have had enough."""

    def turns_left(self, queue: QueueInfo, request: Amounts, pods: int) -> int:
        """How many turns, each of so many pods, begin before the queue is overused."""
        ...
