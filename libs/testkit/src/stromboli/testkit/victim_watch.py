"""Watch a scheduler's cycles, and see whether every victim had to go.

Room is reckoned from the objects alone, when all actions of a cycle are done and nothing of it
has happened yet: what nodes have, less who stands there and is not ending, less who is to come.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from stromboli.api.core import Pod
from stromboli.api.resources import to_base_units
from stromboli.scheduling.decisions import Decisions
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.session import Session
from stromboli.scheduling.trial import Placement
from stromboli.testkit.simulation import Simulation
from stromboli.testkit.small_clusters import core_of

__all__ = ["Cycle", "Victim", "watch"]

_ENDED = ("Succeeded", "Failed")
_WHOLE = ("gangpreempt", "gangreclaim")


@dataclass(frozen=True, slots=True)
class Victim:
    name: str
    job: JobKey
    node: str
    action: str
    claimant: JobKey
    request: Counter[str]


@dataclass(slots=True)
class Cycle:
    """One in which somebody was told to go."""

    rooms: dict[str, Counter[str]]
    """By node: what is free when all who were ending before have ended."""
    victims: list[Victim]
    coming: list[tuple[JobKey, str, Counter[str]]]
    """Who is promised which node: job, node, request."""
    queues: dict[str, Counter[str]]
    """What the pods in each queue take that are not told to go, those to come included."""
    queue_of: dict[JobKey, str]
    limits: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Of queues that have some."""

    def needless(self) -> list[str]:
        """Victims, or whole gangs of them, in whose place nobody is to come."""
        return [
            unit[0].name
            for unit in self._units()
            if self._within_limits(unit) and self._fit(self._with(unit))
        ]

    def needless_if_moved(self) -> list[str]:
        """Also those whose claimant would fit all the same if its pods, all alike, were moved."""
        found: list[str] = []
        for unit in self._units():
            claimant = unit[0].claimant
            rooms = self._with(unit)
            requests = [request for job, _, request in self.coming if job == claimant]
            for job, node, request in self.coming:
                if job == claimant:
                    rooms[node] = _plus(rooms[node], request, 1)
            if any(request != requests[0] for request in requests) or not self._fit(rooms):
                continue
            capacity = sum(
                min(room[name] // units for name, units in requests[0].items() if units)
                for room in rooms.values()
            )
            if capacity >= len(requests) and self._within_limits(unit):
                found.append(unit[0].name)
        return found

    def _units(self) -> list[list[Victim]]:
        """Who can only be spared together."""
        units: dict[Any, list[Victim]] = {}
        for victim in self.victims:
            whole = victim.action in _WHOLE
            key = (victim.claimant, victim.job) if whole else victim.name
            units.setdefault(key, []).append(victim)
        return list(units.values())

    def _with(self, unit: Iterable[Victim]) -> dict[str, Counter[str]]:
        """What nodes have left if these stay, all others go, and all come who are to come."""
        rooms = dict(self.rooms)
        spared = {victim.name for victim in unit}
        for victim in self.victims:
            if victim.name not in spared:
                rooms[victim.node] = _plus(rooms[victim.node], victim.request, 1)
        for _, node, request in self.coming:
            rooms[node] = _plus(rooms[node], request, -1)
        return rooms

    def _within_limits(self, unit: Iterable[Victim]) -> bool:
        """Whether the queues may have it all, if these stay."""
        used = dict(self.queues)
        for victim in unit:
            queue = self.queue_of[victim.job]
            used[queue] = _plus(used.get(queue, Counter()), victim.request, 1)
        return all(
            used.get(queue, Counter())[name] <= units
            for queue, limit in self.limits.items()
            for name, units in limit.items()
        )

    @staticmethod
    def _fit(rooms: dict[str, Counter[str]]) -> bool:
        return all(units >= 0 for room in rooms.values() for units in room.values())


def watch(simulation: Simulation) -> list[Cycle]:
    """Cycles with victims are added to the list that is returned, as they come."""
    core = core_of(simulation)
    cycles: list[Cycle] = []
    last: Callable[[Session, Decisions], None] = core._actions[-1]  # pyright: ignore[reportPrivateUsage] # noqa: SLF001

    def and_look(session: Session, decisions: Decisions) -> None:
        last(session, decisions)
        victims = [
            Victim(
                eviction.task.name,
                eviction.task.job,
                eviction.task.node,
                eviction.action,
                claim.contender.key,
                Counter(dict(eviction.task.kind.request)),
            )
            for claim in decisions.claims
            if claim.contender is not None
            for eviction in claim.evictions
        ]
        if victims:
            cycles.append(_seen(simulation, session, decisions, victims))

    core._actions[-1] = and_look  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    return cycles


def _seen(
    simulation: Simulation, session: Session, decisions: Decisions, victims: list[Victim]
) -> Cycle:
    rooms: dict[str, Counter[str]] = {}
    queues: dict[str, Counter[str]] = {}
    going = {victim.name for victim in victims}
    for (kind, _, name), item in simulation.objects.items():
        if kind == "node":
            offered = item.status.allocatable
            rooms[name] = Counter({r: to_base_units(r, text) for r, text in offered.items()})
    for (kind, _, name), item in simulation.objects.items():
        if kind == "pod" and item.spec.node_name and _stays(item):
            rooms[item.spec.node_name] = _plus(rooms[item.spec.node_name], _asked(item), -1)
            group = item.metadata.annotations["scheduling.k8s.io/group-name"]
            queue = simulation.get("vcpodgroup", item.metadata.namespace, group).spec.queue
            if name not in going:
                queues[queue] = _plus(queues.get(queue, Counter()), _asked(item), 1)
    placements: list[Placement] = session.trial.placements()
    placements += [placed for commit in decisions.commits for placed in commit.placements]
    coming = [
        (placed.contender.key, session.nodes.facts[slot].name, Counter(dict(task.kind.request)))
        for placed in placements
        for task, slot in zip(placed.tasks, placed.slots.tolist(), strict=True)
    ]
    queue_of = {key: session.queue_of(job) for key, job in session.jobs.items()}
    for job, _, request in coming:
        queues[queue_of[job]] = _plus(queues.get(queue_of[job], Counter()), request, 1)
    limits = {
        name: Counter({r: to_base_units(r, text) for r, text in item.spec.capability.items()})
        for (kind, _, name), item in simulation.objects.items()
        if kind == "queue" and item.spec.capability
    }
    return Cycle(rooms, victims, coming, queues, queue_of, limits)


def _stays(pod: Pod) -> bool:
    return pod.status.phase not in _ENDED and not pod.metadata.deletion_timestamp


def _asked(pod: Pod) -> Counter[str]:
    requests = pod.spec.containers[0].resources.requests
    units = {name: to_base_units(name, text) for name, text in requests.items()}
    return Counter({**units, "pods": 1})


def _plus(one: Counter[str], other: Counter[str], sign: int) -> Counter[str]:
    """As Counter does not add: what is negative stays."""
    total = Counter(one)
    for name, units in other.items():
        total[name] += sign * units
    return total
