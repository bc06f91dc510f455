"""What most controllers have in common: no keys of their own making, no memory, no probes."""

from collections.abc import Iterable

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.stimuli import ProbeAnswered
from stromboli.lifecycle.world import Change, World

__all__ = ["Plain"]


class Plain:
    """A controller that only needs to say what it reads and what it decides."""

    ends_with_object: bool = True

    def standing(self) -> Iterable[str]:
        return ()

    def touched_by(self, change: Change, world: World) -> Iterable[str]:  # noqa: ARG002 (nothing)
        return ()

    def heeds(self, change: Change) -> bool:  # noqa: ARG002 (everything)
        return True

    def was_asked(self, key: str, intents: Iterable[AnyIntent]) -> None:
        """Nothing to remember."""

    def was_probed(self, answer: ProbeAnswered, *, now: float) -> None:
        """It asked for none."""

    def forget(self, key: str) -> None:
        """Nothing to forget."""
