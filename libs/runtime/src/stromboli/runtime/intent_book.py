"""The book of what a core has asked for: from the wish until the core has heard how it ended.

Pure. An intent is *sending* until the bus has acknowledged it, *stored* until an outcome of it
counts, *answered* until the view shows what came of it; then the core is *told*, and the entry
is gone. Nothing leaves this book because time has passed: what stays silent for too long ends
the turn, and the next turn's fence finds out.

Intents of one key go out in order: one at a time, or a run or the parts of a gang together, and
what comes behind them once all of them are acknowledged. Keys do not wait for each other.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from stromboli.contracts.intents import AnyIntent, BindGang, Verb
from stromboli.contracts.outcomes import AnyOutcome, Applied, GangBound
from stromboli.runtime.bus.publisher import FIRST_PAUSE_S, GIVE_UP_S, LONGEST_PAUSE_S
from stromboli.runtime.bus.runs import run_of

__all__ = ["Asked", "IntentBook", "Sight"]

MOST_OPEN_PER_KEY: Final = 64
"""On the bus without an answer; one slow job must not fill what the gateway takes in at once."""
MOST_OPEN: Final = 4096
SILENT_S: Final = 30.0
"""So long no outcome of this service at all, while something is stored."""
SILENT_KEY_S: Final = 60.0


class Sight(Protocol):
    """What of the cluster is in view."""

    def position(self, kind: str) -> int:
        """The resourceVersion up to which everything of this kind is in view."""
        ...

    def shows(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Is this very object in view? False for kinds that are not looked at."""
        ...


@dataclass(slots=True, eq=False)
class Asked:
    """One intent in the book."""

    intent: AnyIntent
    wish: str
    """The id that the core knows it by."""
    place: str = ""
    """What it is about, where that tells the members of a run apart."""
    group: tuple[str, ...] = ()
    """Neighbours of the same group may be on the wire together; empty for one that goes alone."""
    payload: bytes = b""
    headers: dict[str, str] | None = None
    pause_s: float = FIRST_PAUSE_S
    is_open: bool = False
    """It is on the wire or stored, and not answered."""

    @property
    def id(self) -> str:
        return self.intent.id


@dataclass(slots=True, eq=False)
class _Line:
    """The intents of one key, in the order in which they were asked for."""

    waiting: deque[Asked] = field(default_factory=deque[Asked])
    on_wire: dict[str, Asked] = field(default_factory=dict[str, Asked])
    """Not acknowledged, by place; all of one group."""
    open: int = 0
    stored: int = 0

    @property
    def may_send(self) -> bool:
        if not self.waiting:
            return False
        first = self.waiting[0]
        if self.open >= MOST_OPEN_PER_KEY and not isinstance(first.intent, BindGang):
            return False
        if not self.on_wire:
            return True
        beside = next(iter(self.on_wire.values()))
        return bool(first.group) and first.group == beside.group and first.place not in self.on_wire


@dataclass(slots=True)
class IntentBook:
    """Of one turn. `now` is always a monotonic clock's."""

    _all: dict[str, Asked] = field(default_factory=dict[str, Asked])
    """Unanswered, by id."""
    _wishes: set[str] = field(default_factory=set[str])
    """Ids, as the core knows them, of which it has not heard yet."""
    _lines: dict[str, _Line] = field(default_factory=dict[str, _Line])
    _ready: dict[str, None] = field(default_factory=dict[str, None])
    """Keys that may have something to send."""
    _failed: list[tuple[float, int, Asked]] = field(default_factory=list[tuple[float, int, Asked]])
    """When to send again, as a heap."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _sending: dict[str, float] = field(default_factory=dict[str, float])
    """Since when, oldest first."""
    _silent: dict[str, float] = field(default_factory=dict[str, float])
    """Key with something stored → since when it has not been heard of, oldest first."""
    _heard_at: float = 0.0
    _open: int = 0
    _held: dict[str, list[tuple[int, int, Asked, AnyOutcome]]] = field(
        default_factory=dict[str, list[tuple[int, int, Asked, AnyOutcome]]]
    )
    """Kind → what waits for its position, as a heap."""
    _ends: list[tuple[Asked, Applied]] = field(default_factory=list[tuple[Asked, Applied]])
    """What waits for an object to go out of view."""
    _to_tell: deque[tuple[Asked, AnyOutcome]] = field(
        default_factory=deque[tuple[Asked, AnyOutcome]]
    )

    def __len__(self) -> int:
        """How many are not answered."""
        return len(self._all)

    @property
    def is_full(self) -> bool:
        """Is so much unanswered that nothing more should be asked for?"""
        return len(self._all) >= MOST_OPEN

    # Sending.

    def is_wished(self, wish: str) -> bool:
        """Was this asked for, and the core has not heard how it ended?"""
        return wish in self._wishes

    def ask(self, asked: Asked) -> None:
        """It goes out when its turn has come."""
        asked.group, asked.place = _group_of(asked.intent)
        self._all[asked.id] = asked
        self._wishes.add(asked.wish)
        line = self._lines.get(asked.intent.key)
        if line is None:
            line = self._lines[asked.intent.key] = _Line()
        line.waiting.append(asked)
        if line.may_send:
            self._ready[asked.intent.key] = None

    def to_send(self, now: float) -> Iterator[Asked]:
        """What may go on the wire now; each is on it once it was handed out."""
        while self._failed and self._failed[0][0] <= now:
            asked = heapq.heappop(self._failed)[2]
            if asked.id in self._sending:
                yield asked
        while self._ready and self._open < MOST_OPEN:
            key = next(iter(self._ready))
            del self._ready[key]
            line = self._lines.get(key)
            # All of a gang goes out together: the gateway begins with its last part.
            while line is not None and line.may_send:
                asked = line.waiting.popleft()
                line.on_wire[asked.place] = asked
                line.open += 1
                self._open += 1
                asked.is_open = True
                self._sending[asked.id] = now
                yield asked

    def next_retry(self) -> float | None:
        """When something that failed is to be sent again."""
        return self._failed[0][0] if self._failed else None

    def failed(self, asked: Asked, now: float) -> None:
        """It may be stored or not: the same again, a little later."""
        if asked.id in self._sending:
            heapq.heappush(self._failed, (now + asked.pause_s, next(self._numbers), asked))
            asked.pause_s = min(2 * asked.pause_s, LONGEST_PAUSE_S)

    def stored(self, asked: Asked, now: float) -> None:
        """The bus has it: what comes behind it may go out."""
        if self._off_the_wire(asked):
            line = self._lines[asked.intent.key]
            line.stored += 1
            self._silent.setdefault(asked.intent.key, now)

    def _off_the_wire(self, asked: Asked) -> bool:
        if self._sending.pop(asked.id, None) is None:
            return False
        line = self._lines[asked.intent.key]
        del line.on_wire[asked.place]
        asked.payload = b""
        if line.may_send:
            self._ready[asked.intent.key] = None
        return True

    # Answers.

    def heard(self, outcome: AnyOutcome, now: float) -> bool:
        """An outcome of this service counts; False if it is none of this book."""
        self._heard_at = now
        asked = self._all.get(outcome.intent_id)
        if asked is None:
            return False
        self._end(asked, outcome)
        if asked.intent.key in self._silent:
            del self._silent[asked.intent.key]
            if self._lines[asked.intent.key].stored:
                self._silent[asked.intent.key] = now
        self._drop_if_idle(asked.intent.key)
        return True

    def refuse(self, asked: Asked, outcome: AnyOutcome) -> None:
        """Nobody else will answer it: it can't be put on the bus."""
        if self._all.get(asked.id) is asked:
            self._end(asked, outcome)
            self._drop_if_idle(asked.intent.key)

    def _end(self, asked: Asked, outcome: AnyOutcome) -> None:
        """From now on it only waits for what the core is to be told before."""
        del self._all[asked.id]
        line = self._lines[asked.intent.key]
        # An outcome proves that it is stored, whether or not that was acknowledged.
        if not self._off_the_wire(asked) and asked.is_open:
            line.stored -= 1
        if asked.is_open:
            asked.is_open = False
            line.open -= 1
            self._open -= 1
        if line.may_send:
            self._ready[asked.intent.key] = None
        self._hold_back(asked, outcome)

    def _drop_if_idle(self, key: str) -> None:
        line = self._lines[key]
        if not line.waiting and not line.open:
            del self._lines[key]
            self._silent.pop(key, None)

    def _hold_back(self, asked: Asked, outcome: AnyOutcome) -> None:
        version = _version_of(outcome)
        if version:
            held = self._held.setdefault(outcome.kind, [])
            heapq.heappush(held, (version, next(self._numbers), asked, outcome))
        elif isinstance(outcome, Applied) and outcome.verb is Verb.DELETE and outcome.uid:
            self._ends.append((asked, outcome))
        else:
            self._to_tell.append((asked, outcome))

    def to_tell(self, sight: Sight) -> Iterator[tuple[Asked, AnyOutcome]]:
        """Outcomes whose facts are in view; the core must have been told of these before."""
        for kind in tuple(self._held):
            held, position = self._held[kind], sight.position(kind)
            while held and held[0][0] <= position:
                _, _, asked, outcome = heapq.heappop(held)
                self._to_tell.append((asked, outcome))
            if not held:
                del self._held[kind]
        ends, self._ends = self._ends, []
        for asked, end in ends:
            if sight.shows(end.kind, end.namespace, end.name, end.uid):
                self._ends.append((asked, end))
            else:
                self._to_tell.append((asked, end))
        while self._to_tell:
            asked, outcome = self._to_tell.popleft()
            self._wishes.discard(asked.wish)
            yield asked, outcome

    # Silence.

    def overdue(self, now: float) -> str:
        """Why this turn can't go on; empty while it can."""
        if self._sending and now - next(iter(self._sending.values())) >= GIVE_UP_S:
            return f"the bus has not acknowledged an intent for {GIVE_UP_S:g} s"
        if not self._silent:
            return ""
        key, since = next(iter(self._silent.items()))
        if now - max(since, self._heard_at) >= SILENT_S:
            return f"no answer from the gateway for {SILENT_S:g} s"
        if now - since >= SILENT_KEY_S:
            return f"no answer about {key} for {SILENT_KEY_S:g} s"
        return ""


def _group_of(intent: AnyIntent) -> tuple[tuple[str, ...], str]:
    """Which intents it may be on the wire with, and what tells it apart from them."""
    if isinstance(intent, BindGang):
        return ("gang", intent.namespace, intent.name, intent.attempt), str(intent.part)
    run = run_of(intent)
    return ((), "") if run is None else (("run", run.sort), run.place)


def _version_of(outcome: AnyOutcome) -> int:
    """The resourceVersion that must be in view; 0 if there is none to wait for."""
    match outcome:
        case Applied(resource_version=version) | GangBound(resource_version=version):
            return int(version) if version.isdecimal() else 0
        case _:
            return 0
