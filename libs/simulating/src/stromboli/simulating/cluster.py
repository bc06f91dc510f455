"""A whole cluster in memory: objects, the controllers' core, the scheduler's core, kubelets.

Intents are applied at once, and time is a number that moves only when told to. Everybody has
a turn: the kubelets start what was bound, then the controllers until they have nothing more to
say, then the scheduler decides once, and only when nobody else has anything to do are pods
gone that were told to stop. So every cycle of the scheduler sees what a quick cluster would
show it, and a story always comes out the same.
"""

from collections.abc import Mapping
from typing import Any, Final

from stromboli.api.meta import KubeObject
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.records import HistoryRecorded
from stromboli.lifecycle.controllers.registry import CONTROLLERS, Options, kinds_read_by, made
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.queues import ALWAYS_THERE
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.core import KINDS, SchedulerCore
from stromboli.simulating.admission import Admission
from stromboli.simulating.completing import completed, in_a_namespace
from stromboli.simulating.errors import NeverSettles
from stromboli.simulating.gateway import Gateway
from stromboli.simulating.hosting import Hosted
from stromboli.simulating.kubelet import Kubelets, RunsFor, run_seconds
from stromboli.simulating.store import START, Place, Store, Watcher, place_of

__all__ = ["Cluster"]

_MOST_SESSIONS: Final = 2_000
"""At one moment: a cluster that needs more goes round in circles."""
_MOST_EVICTIONS: Final = 10
"""Of pods of one name, at one moment."""


class Cluster:
    """`conf` is the scheduler's configuration, `runs_for` says how long a pod runs."""

    def __init__(
        self,
        conf: SchedulingConf | None = None,
        *,
        start: float = START,
        runs_for: RunsFor = run_seconds,
    ) -> None:
        conf = conf or SchedulingConf()
        names = conf.scheduler_names
        self.scheduler_names = frozenset(names)
        """Whose pods are ours."""
        self._scheduler_name = names[0]
        self._store = Store(start)
        self._admission = Admission(self._store, names)
        self._gateway = Gateway(self._store, admit=self.admitted)
        self._kubelets = Kubelets(self._store, runs_for)
        self.core = SchedulerCore(conf)
        controllers = LifecycleCore(
            controllers=made(CONTROLLERS, Options(scheduler_names=self.scheduler_names)),
        )
        self._controllers = Hosted(
            controllers, self._store, self._gateway, kinds_read_by(CONTROLLERS)
        )
        self._scheduler = Hosted(self.core, self._store, self._gateway, KINDS)
        self._assumed: set[Place] = set()
        """What is there because every cluster has it; whoever puts it is not refused."""
        self.kubelets_work = True
        """Whether pods start and end by themselves; who tells a story may want to say it."""
        self.sessions = 0
        """How often the scheduler has decided."""
        self._counted = (start, 0, 0)
        for queue in ALWAYS_THERE.values():
            self.put(queue)
            self._assumed.add(place_of(queue))

    # What is there.

    @property
    def now(self) -> float:
        return self._store.now

    @property
    def objects(self) -> Mapping[Place, Any]:
        """By the kind's token, namespace and name."""
        return self._store.objects

    @property
    def watchers(self) -> list[Watcher]:
        """Called at every change of an object; to be added to."""
        return self._store.watchers

    @property
    def binds(self) -> Mapping[tuple[str, str], str]:
        """The node of every pod that the scheduler bound, by namespace and name."""
        return self._gateway.binds

    @property
    def evictions(self) -> list[tuple[str, str]]:
        """Pods that were evicted, in order, each as often as it was."""
        return self._gateway.evictions

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._gateway.events

    @property
    def intents(self) -> list[AnyIntent]:
        """What the scheduler asked for, in order."""
        return self._scheduler.intents

    @property
    def history(self) -> list[HistoryRecorded]:
        """What both cores told about their decisions, the scheduler's last."""
        return [*self._controllers.history, *self._scheduler.history]

    def get(self, kind: str, namespace: str, name: str) -> Any:
        return self._store.objects[kind, namespace, name]

    def forget_what_was_said(self) -> None:
        """Let go of intents, history and events: a long story then needs no room of its own."""
        for hosted in (self._controllers, self._scheduler):
            hosted.intents.clear()
            hosted.history.clear()
        self._gateway.events.clear()

    # What happens to it.

    def put(self, item: KubeObject, *, whatever: bool = False) -> None:
        """An object appears or changes; a new one goes through admission (RefusedObject).

        With `whatever` it is there although admission would refuse it, as in a cluster in which
        it came by another way.
        """
        item = in_a_namespace(item)
        place = place_of(item)
        if place in self._assumed:
            self._assumed.discard(place)
            self._store.delete(place)
        if place in self._store.objects:
            self._store.put(completed(item, self._store, self._scheduler_name))
        else:
            self._store.put(self.admitted(item, whatever=whatever))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Somebody deletes it: with it goes what it owns, and pods end in their own time."""
        self._store.end((kind, namespace, name))

    def admitted(self, item: KubeObject, *, whatever: bool = False) -> KubeObject:
        """What admission makes of an object; it is not put. Raises RefusedObject."""
        judged = self._admission.admitted(item, whatever=whatever)
        return completed(judged, self._store, self._scheduler_name)

    def unusable(self) -> dict[Place, str]:
        """What the scheduler can not reckon with, and why."""
        self._scheduler.read_all()
        return self.core.cluster.unusable()

    # Running it.

    def prepare(self) -> None:
        """Let the controllers react; nobody else does anything."""
        while self._controllers_act():
            self._check()

    def start_bound(self) -> None:
        """Let the kubelets start what was bound."""
        self._kubelets.start_bound()

    def session(self) -> bool:
        """Let the scheduler decide once, if anything happened that it wants to decide about."""
        self._scheduler.read_all()
        decided = self._scheduler.wake()
        self.sessions += decided
        return decided

    def safety_pass(self) -> None:
        """Let both cores look at everything, as they do now and then; nothing should come of it."""
        for hosted in (self._controllers, self._scheduler):
            hosted.safety_pass()
        self.settle()

    def settle(self) -> None:
        """Until nobody has anything to do at this moment; raises NeverSettles."""
        while (
            (self.kubelets_work and (self._kubelets.start_bound() or self._kubelets.finish_due()))
            or self._controllers_act()
            or self.session()
            or (self.kubelets_work and self._kubelets.end_leaving())
        ):
            self._check()

    def end_leaving(self) -> None:
        """Let pods be gone that were told to stop."""
        self._kubelets.end_leaving()

    @property
    def next_end(self) -> float:
        """When the next pod will have done its work."""
        return self._kubelets.next_moment

    def next_moment(self) -> float:
        """When something is due: a pod has done its work, or a core wants to be woken."""
        return min(self.next_end, self._controllers.wake_at, self._scheduler.wake_at)

    def advance_to(self, moment: float) -> None:
        """Let time pass; whatever is due on the way happens in its turn."""
        while (due := self.next_moment()) <= moment:
            self._store.now = max(self.now, due)
            self.settle()
        self._store.now = max(self.now, moment)
        self.settle()

    def _controllers_act(self) -> bool:
        heard = self._controllers.read_all()
        return self._controllers.wake() or heard

    def _check(self) -> None:
        """Nothing may go on for ever while no time passes."""
        moment, sessions, evicted = self._counted
        if moment != self.now:
            self._counted = (self.now, self.sessions, len(self.evictions))
            return
        if self.sessions - sessions > _MOST_SESSIONS:
            raise NeverSettles(
                f"the scheduler decided {_MOST_SESSIONS} times and still finds something to do"
            )
        recent = self.evictions[evicted:]
        if len(recent) > _MOST_EVICTIONS and recent.count(recent[-1]) > _MOST_EVICTIONS:
            name = "/".join(recent[-1])
            raise NeverSettles(
                f"pod {name} was evicted more than {_MOST_EVICTIONS} times without any time "
                "passing: jobs take each other's place again and again"
            )
