"""What a controller is to the engine that runs it.

A controller says which kinds it reads and which keys a change touches, and decides about one
key at a time. Everything around a decision (asking once, waiting for the own write, pausing
after a refusal, timers) is the engine's, so no controller has to think of it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Refused
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.stimuli import Probe, ProbeAnswered
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.world import Change, Entry, World

__all__ = ["NOTHING_MORE", "Case", "Controller", "Verdict"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One key that is to be decided, and what the engine knows about it."""

    key: str
    namespace: str
    name: str
    entry: Entry | None
    """What the key names, if it is there."""
    made: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """(kind, name) → uid of objects that no fact tells of; empty: deleted again."""
    refusal: Refused | None = None
    """Why something that was asked for last time was refused."""
    has_failed: bool = False
    """Whether something that was asked for last time was refused or not answered."""
    now: float

    @property
    def trouble(self) -> str:
        """The refusal in words."""
        said = self.refusal
        return "" if said is None else f"{said.verb} {said.kind}: {said.message}"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of a decision besides the intents, which are with the Asker."""

    history: tuple[HistoryRecorded, ...] = ()
    probes: tuple[Probe, ...] = ()
    look_again_at: float | None = None
    """Decide about this key again at that time, whatever happens."""


NOTHING_MORE: Final = Verdict()


class Controller(Protocol):
    """Decides about the keys of one kind. Its own memory is a cache and may be lost."""

    @property
    def name(self) -> str:
        """As `--controllers` knows it."""
        ...

    @property
    def decides(self) -> str:
        """The kind that its keys name."""
        ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    @property
    def ends_with_object(self) -> bool:
        """Whether nothing is left to decide about a key once its object is gone."""
        ...

    def standing(self) -> Iterable[str]:
        """Keys that are decided about even when nothing is there."""
        ...

    def touched_by(self, change: Change, world: World) -> Iterable[str]:
        """The keys that a change matters to beyond those it is filed under."""
        ...

    def heeds(self, change: Change) -> bool:
        """Whether a change matters to the keys that the object is filed under."""
        ...

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict: ...

    def was_asked(self, key: str, intents: Iterable[AnyIntent]) -> None:
        """These are on their way."""
        ...

    def was_probed(self, answer: ProbeAnswered, *, now: float) -> None: ...

    def forget(self, key: str) -> None:
        """The key's object is gone."""
        ...
