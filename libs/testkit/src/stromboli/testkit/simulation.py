"""One core alone in a simulated cluster: what it asks for is done at once.

For tests of a scheduler's core by itself: no controllers, no admission, no kubelets. Binds and
evictions may be refused by a rule, to see what the core makes of it; pods that are told to go
may take their time.
"""

from collections.abc import Callable
from typing import Any

from stromboli.api.meta import KubeObject
from stromboli.contracts.intents import AnyIntent, EvictPod, PodBinding
from stromboli.contracts.records import REPAIRED, HistoryRecorded
from stromboli.contracts.stimuli import Core, Instruction
from stromboli.simulating.gateway import Gateway
from stromboli.simulating.hosting import Hosted
from stromboli.simulating.store import Place, Store

__all__ = ["Simulation"]

_BEGIN = 1_893_456_000.0
_MOST_ROUNDS = 10_000


class Simulation:
    """`lingering`: whether pods that are told to go stay, ending, until `end_pods`."""

    def __init__(
        self,
        core: Core,
        *,
        may_bind: Callable[[PodBinding], bool] = lambda _: True,
        may_evict: Callable[[EvictPod], bool] = lambda _: True,
        lingering: bool = False,
    ) -> None:
        self._store = Store(_BEGIN)
        self._gateway = Gateway(self._store)
        self._gateway.may_bind = may_bind
        self._gateway.may_evict = may_evict
        self._gateway.evicted_are_gone = not lingering
        self._host = Hosted(core, self._store, self._gateway)

    # What is there, and what was said.

    @property
    def core(self) -> Any:
        return self._host.core

    @property
    def now(self) -> float:
        return self._store.now

    @now.setter
    def now(self, moment: float) -> None:
        self._store.now = moment

    @property
    def objects(self) -> dict[Place, Any]:
        return self._store.objects

    @property
    def intents(self) -> list[AnyIntent]:
        """Everything that was asked but events, in order."""
        return [one for one in self._host.intents if one.kind != "event"]

    @property
    def history(self) -> list[HistoryRecorded]:
        return self._host.history

    @property
    def binds(self) -> dict[tuple[str, str], str]:
        return self._gateway.binds

    @property
    def evictions(self) -> list[tuple[str, str]]:
        return self._gateway.evictions

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._gateway.events

    def get(self, kind: str, namespace: str, name: str) -> Any:
        return self._store.objects[kind, namespace, name]

    # What happens.

    def put(self, item: KubeObject) -> None:
        self._store.put(item)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._store.delete((kind, namespace, name))

    def end_pods(self) -> None:
        """Those that were told to go are gone."""
        for place, item in list(self._store.objects.items()):
            if place[0] == "pod" and item.metadata.deletion_timestamp:
                self._store.delete(place)

    def perform(self, instructions: list[Instruction]) -> None:
        """Do what the core said when a test told it something by itself."""
        self._host.perform(instructions)

    def run(self) -> None:
        """Until the core has nothing more to say now."""
        for _ in range(_MOST_ROUNDS):
            heard = self._host.read_all()
            if not self._host.wake() and not heard:
                return
        raise RuntimeError(f"the core did not come to rest within {_MOST_ROUNDS} rounds")

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping wherever the core wants to be woken."""
        end = self.now + seconds
        while self._host.wake_at <= end:
            self.now = max(self.now, self._host.wake_at)
            self.run()
        self.now = end

    def safety_pass(self) -> None:
        """The core looks at everything that waits."""
        self._host.safety_pass()
        self.run()

    @property
    def repaired(self) -> list[str]:
        """Jobs of which only a safety pass found out that there was news."""
        return [line.job for line in self.history if line.what == REPAIRED]

    def restart(self, core: Core) -> None:
        """A new core learns everything from the facts alone."""
        self._host.begin_anew(core)
        self.run()
