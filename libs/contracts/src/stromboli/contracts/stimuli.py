"""What reaches a core, and what it answers: the one interface between deciding and doing.

    handle(stimulus, *, now) -> list[Instruction]

A core is fed by a shell (`stromboli.runtime.deciding`): first every object of the kinds it
reads, as `FactChanged` with no `before`; then `Ready`, from which on it may decide; then
whatever happens.
When leadership changes hands the shell makes a new core and does the same again, so a core's
memory is a cache of facts and never more than that.

Intents in an instruction list carry no epoch, life or service yet: the shell fills these in.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import AnyOutcome, AssumedPod
from stromboli.contracts.records import HistoryRecorded


class FactChanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object appeared, changed or ended. Objects are the Structs of `stromboli.api`."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    before: Any = None
    """None when it is new to the view."""
    after: Any = None
    """None when it is gone."""
    last: Any = None
    """When it is gone: how it was last seen."""


class Ready(msgspec.Struct, frozen=True):
    """Every kind is synced, predecessors are fenced off, the view has their last writes."""

    assumed: tuple[AssumedPod, ...] = ()
    """Pods that predecessors asked to bind, and nobody knows whether they were or will be."""


class OutcomeHeard(msgspec.Struct, frozen=True):
    """The gateway answered one of our intents, and all facts that came of it were told before."""

    outcome: AnyOutcome


class WokeUp(msgspec.Struct, frozen=True):
    """The time that a `WakeAt` named has come."""


class SafetyPass(msgspec.Struct, frozen=True):
    """Look at everything that waits once more, whatever happened meanwhile: a safety net.

    Nothing puts it off, neither facts nor alarms. A core whose last pass is still under way
    goes on with that one.
    """

    within_s: float
    """The core may spread the work over so long."""


class ProbeAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """How a `Probe` went."""

    probe_id: str
    key: str
    succeeded: bool
    said: str = ""
    """What was answered, or why nothing was, in words for people."""


Stimulus: TypeAlias = FactChanged | Ready | OutcomeHeard | WokeUp | SafetyPass | ProbeAnswered


class WakeAt(msgspec.Struct, frozen=True):
    """Send `WokeUp` at this Unix time; the earliest one asked for counts."""

    at: float


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Find out whether a pod answers; the answer is a `ProbeAnswered` with the same id.

    With a path it is an HTTP GET, which succeeds with a status from 200 to 399; without one,
    a TCP connection is enough.
    """

    id: str
    key: str
    host: str
    port: int
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 1.0


Instruction: TypeAlias = AnyIntent | HistoryRecorded | WakeAt | Probe


class Core(Protocol):
    """Decides. No await, no clock, no I/O, no logging."""

    def handle(self, stimulus: Stimulus, *, now: float) -> list[Instruction]: ...


@runtime_checkable
class BatchCore(Core, Protocol):
    """A core that is quicker when it is told many things at once.

    It then need not say what it would have said after only some of them.
    """

    def handle_all(self, stimuli: Sequence[Stimulus], *, now: float) -> list[Instruction]: ...


def tell(core: Core, stimuli: Sequence[Stimulus], *, now: float) -> list[Instruction]:
    """All of them, in this order."""
    if isinstance(core, BatchCore):
        return core.handle_all(stimuli, now=now)
    return [said for stimulus in stimuli for said in core.handle(stimulus, now=now)]
