"""A place for a core to live: its inbox, and the time at which it wants to be woken.

It does for one core what the shell of a service does, on virtual time.
"""

import math
from collections.abc import Iterable

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.stimuli import (
    Core,
    Instruction,
    OutcomeHeard,
    Probe,
    ProbeAnswered,
    Ready,
    SafetyPass,
    Stimulus,
    WakeAt,
    WokeUp,
    tell,
)
from stromboli.simulating.gateway import Gateway
from stromboli.simulating.inbox import Inbox
from stromboli.simulating.store import Store

__all__ = ["Hosted"]


class Hosted:
    """One core among the others of a simulated cluster."""

    def __init__(
        self, core: Core, store: Store, gateway: Gateway, reads: Iterable[str] | None = None
    ) -> None:
        """Without `reads`, it is told of all kinds."""
        self.core = core
        self.inbox = Inbox()
        self.wake_at = math.inf
        self.intents: list[AnyIntent] = []
        """Everything that it asked for, in order."""
        self.history: list[HistoryRecorded] = []
        self._store = store
        self._gateway = gateway
        self._reads = None if reads is None else frozenset(reads)
        self._is_ready = False
        store.subscribe(self.inbox, self._reads)

    def read_all(self) -> bool:
        """Take in what has come; decides only as far as the core does at every fact."""
        batch = self.inbox.take()
        if batch:
            self.perform(tell(self.core, batch, now=self._store.now))
        return bool(batch)

    def wake(self) -> bool:
        """Let it decide, if it wants to by now; the first time it always does."""
        if not self._is_ready:
            self._is_ready = True
            self.tell(Ready())
            return True
        if self.wake_at <= self._store.now:
            self.wake_at = math.inf
            self.tell(WokeUp())
            return True
        return False

    def safety_pass(self) -> None:
        """Let it look at everything, in one step."""
        self.tell(SafetyPass(within_s=0.0))

    def begin_anew(self, core: Core) -> None:
        """Another core of the same kind takes over: all it knows is what is there."""
        self.core = core
        self.wake_at = math.inf
        self._is_ready = False
        self.inbox.clear()
        for fact in self._store.everything(self._reads):
            self.inbox.add(fact)

    def tell(self, stimulus: Stimulus) -> None:
        self.perform(self.core.handle(stimulus, now=self._store.now))

    def perform(self, instructions: list[Instruction]) -> None:
        """Do what the core asks for; the answers come to its inbox."""
        for instruction in instructions:
            match instruction:
                case WakeAt(at):
                    self.wake_at = min(self.wake_at, at)
                case HistoryRecorded():
                    self.history.append(instruction)
                case Probe():
                    # There is no network here: what runs is taken to answer.
                    answer = ProbeAnswered(
                        probe_id=instruction.id, key=instruction.key, succeeded=True
                    )
                    self.inbox.add(answer)
                case _:
                    self.intents.append(instruction)
                    outcome = self._gateway.carry_out(instruction)
                    if outcome is not None:
                        self.inbox.add(OutcomeHeard(outcome))
