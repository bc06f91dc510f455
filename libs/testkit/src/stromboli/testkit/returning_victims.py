"""A cluster in which every victim comes back: whoever is evicted waits again under its old name.

That is what controllers do, and it is how two jobs can take each other's place for ever. A story
is told step by step: jobs come and end. After each step the cluster is left alone until it rests,
and whatever was evicted on the way is looked at.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from stromboli.api.core import Pod
from stromboli.api.meta import KubeObject
from stromboli.api.wellknown import GROUP_NAME
from stromboli.contracts.intents import BindGang
from stromboli.contracts.records import HistoryRecorded
from stromboli.scheduling.asking import POD_EVICTED
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.testkit.scheduling_objects import queue
from stromboli.testkit.simulation import Simulation

__all__ = ["ReturningVictims", "Story"]

_GANG_ACTIONS: Final = frozenset({"gangpreempt", "gangreclaim"})
_ROUND_S: Final = 70.0
"""Longer than any window that a plugin of the configurations has."""
_QUIET_ROUNDS: Final = 2
_MOST_ROUNDS: Final = 200


@dataclass(slots=True)
class Story:
    """What was seen, and what should not have been."""

    evictions: int = 0
    faults: list[str] = field(default_factory=list[str])


class ReturningVictims:
    """`keeps_gangs`: whether the configuration lets the plugin gang have its say on victims."""

    def __init__(self, conf: SchedulingConf, *, keeps_gangs: bool = True) -> None:
        self.story = Story()
        self._keeps_gangs = keeps_gangs
        self._cluster = Simulation(SchedulerCore(conf), lingering=True)
        self._cluster.put(queue())
        self._made: dict[str, Pod] = {}
        self._generation = 0
        self._lines = 0
        self._intents = 0
        self._standing: Counter[str] = Counter()

    @property
    def cluster(self) -> Simulation:
        return self._cluster

    def put(self, objects: Iterable[KubeObject]) -> None:
        for item in objects:
            if isinstance(item, Pod):
                self._made[item.metadata.name] = item
            self._cluster.put(item)

    def end(self, group: str) -> None:
        """The job is over: it and its pods are gone."""
        self._cluster.delete("vcpodgroup", "test", group)
        for pod in self._pods():
            if _group(pod) == group:
                self._cluster.delete("pod", "test", pod.metadata.name)

    def rest(self) -> None:
        """Until nobody is evicted any more, however much time passes."""
        told: list[dict[str, str]] = []
        bound: Counter[str] = Counter()
        quiet = 0
        most = 4 * len(self._pods()) + 8
        for _ in range(_MOST_ROUNDS):
            seen = self._round()
            bound += self._bound()
            told += seen
            quiet = 0 if seen else quiet + 1
            if len(told) > most:
                names = [line["pod"] for line in told[-6:]]
                self.story.faults.append(f"no rest: {len(told)} evictions, lately {names}")
                break
            if quiet > _QUIET_ROUNDS:
                break
            self._cluster.advance(1.0 if seen else _ROUND_S)
        self.story.evictions += len(told)
        for claimant in {line["for"].partition("/")[2] for line in told}:
            if not bound[claimant]:
                self.story.faults.append(f"{claimant} had others evicted and was never bound")

    def _round(self) -> list[dict[str, str]]:
        """The core decides, victims go and come back, and what was bound runs."""
        self._count_standing()
        self._cluster.run()
        told = self._told()
        self._check_gangs(told)
        for pod in self._pods():
            if pod.metadata.deletion_timestamp:
                self._cluster.delete("pod", "test", pod.metadata.name)
                self._come_back(pod.metadata.name)
            elif pod.spec.node_name and pod.status.phase == "Pending":
                self._cluster.put(replace(pod, status=replace(pod.status, phase="Running")))
        self._cluster.run()
        later = self._told()
        self._check_gangs(later)
        return told + later

    def _come_back(self, name: str) -> None:
        self._generation += 1
        made = self._made[name]
        uid = f"{made.metadata.uid}~{self._generation}"
        self._cluster.put(replace(made, metadata=replace(made.metadata, uid=uid)))

    def _told(self) -> list[dict[str, str]]:
        """Evictions since the last look."""
        history: list[HistoryRecorded] = self._cluster.history
        new, self._lines = history[self._lines :], len(history)
        return [{**line.detail, "job": line.job} for line in new if line.what == POD_EVICTED]

    def _bound(self) -> Counter[str]:
        """How many pods of each job were bound since the last look."""
        intents = self._cluster.intents
        new, self._intents = intents[self._intents :], len(intents)
        return Counter(
            _group(self._made[one.name])
            for intent in new
            if isinstance(intent, BindGang)
            for one in intent.binds
        )

    def _count_standing(self) -> None:
        self._standing = Counter(_group(pod) for pod in self._pods() if _stands(pod))

    def _check_gangs(self, told: list[dict[str, str]]) -> None:
        """Only who was below its minimum before, or went as a whole, may be below it now."""
        before = self._standing
        self._count_standing()
        for line in told:
            name = line["job"].partition("/")[2]
            group = self._cluster.objects.get(("vcpodgroup", "test", name))
            if group is None or not self._keeps_gangs:
                continue
            least, left = group.spec.min_member, self._standing[name]
            if line["action"] in _GANG_ACTIONS and not left:
                continue
            if left < least <= before[name]:
                self.story.faults.append(
                    f"{name} needs {least}, had {before[name]}, {left} are left by {line['action']}"
                )

    def _pods(self) -> list[Pod]:
        objects: dict[Any, Any] = self._cluster.objects
        return [item for (kind, _, _), item in list(objects.items()) if kind == "pod"]


def _group(pod: Pod) -> str:
    return pod.metadata.annotations[GROUP_NAME]


def _stands(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.metadata.deletion_timestamp
