"""What has happened and was not yet handled, oldest first.

As on the bus, only the newest fact about an object counts: whoever reads late sees the object
once, as it is. An object that went away, or gave its name to another one, is told in full. And
as in a shell, answers come after all facts that were there by then.
"""

from typing import TypeAlias

from msgspec.structs import replace

from stromboli.contracts.stimuli import FactChanged, OutcomeHeard, Stimulus

__all__ = ["Inbox"]

_Place: TypeAlias = tuple[str, str, str]


class Inbox:
    """Filled by the store and by answers, emptied by one core."""

    def __init__(self) -> None:
        self._waiting: list[Stimulus | None] = []
        self._newest: dict[_Place, int] = {}
        """Where the newest fact about an object stands."""

    def add(self, stimulus: Stimulus) -> None:
        if isinstance(stimulus, FactChanged):
            stimulus = self._replacing(stimulus)
        self._waiting.append(stimulus)

    def take(self) -> list[Stimulus]:
        waiting = [stimulus for stimulus in self._waiting if stimulus is not None]
        self.clear()
        return sorted(waiting, key=lambda stimulus: isinstance(stimulus, OutcomeHeard))

    def clear(self) -> None:
        self._waiting = []
        self._newest = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def _replacing(self, fact: FactChanged) -> FactChanged:
        place = (fact.kind, fact.namespace, fact.name)
        at = self._newest.get(place)
        self._newest[place] = len(self._waiting)
        older = self._waiting[at] if at is not None else None
        if at is None or not isinstance(older, FactChanged):
            return fact
        if fact.after is None or older.after is None or fact.uid != older.uid:
            return fact
        self._waiting[at] = None
        return replace(fact, before=older.before)
