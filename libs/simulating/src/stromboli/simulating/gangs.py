"""Gangs as a trace follows them: which pods have a node, run, and have done their work.

A gang works while at least its minimum of pods runs or has succeeded. Only then do the clocks of
its pods go on, and only then are its pods on nodes of any use.
"""

import math
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stromboli.api.core import Pod
from stromboli.scheduling.pods import read_task
from stromboli.scheduling.resources import Amounts
from stromboli.simulating.clocks import Clock, Clocks
from stromboli.simulating.kubelet import run_seconds

__all__ = ["Gang", "Member"]

MemberId: TypeAlias = tuple[str, str]
"""Name and uid of a pod: one that was made again is another one."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class Member:
    """One pod."""

    clock: Clock
    request: Amounts
    takes_room: bool = False
    phase: str = ""


@dataclass(slots=True)
class Gang:
    """A job and its pods, or what else belongs together."""

    queue: str
    least: int
    """How many must run for any of them to be of use."""
    members: dict[MemberId, Member] = field(default_factory=dict[MemberId, Member])
    placed: int = 0
    """Pods that take room on a node."""
    running: int = 0
    succeeded: int = 0
    works: bool = False
    done: dict[str, int] = field(default_factory=dict[str, int])
    """What the pods asked for that have succeeded."""
    wasted_s: float = 0.0
    """Work of pods that ended without success: it has to be done again."""

    @property
    def is_short(self) -> bool:
        """Whether it has fewer pods on nodes than it needs."""
        return self.placed + self.succeeded < self.least

    def see(self, pod: Pod, clocks: Clocks, now: float) -> Amounts | None:
        """A pod is there, or changed; what it takes of the nodes from now on, if it does."""
        identity = (pod.metadata.name, pod.metadata.uid)
        member = self.members.get(identity)
        if member is None:
            member = self.members[identity] = _member(pod)
        takes_room = bool(pod.spec.node_name) and pod.status.phase not in _ENDED
        phase = pod.status.phase
        changed = takes_room != member.takes_room
        self._count(member, -1)
        if member.phase == "Running" and phase != "Running":
            clocks.stop(member.clock, now)
            if phase == "Failed":
                self.wasted_s += member.clock.done_s
        member.takes_room, member.phase = takes_room, phase
        self._count(member, 1)
        self.settle(clocks, now)
        if self.works and phase == "Running":
            clocks.start(member.clock, now)
        return member.request if changed else None

    def lose(self, pod: Pod, clocks: Clocks, now: float, *, counts: bool) -> Amounts | None:
        """A pod is gone; what it took, if it did. `counts` says whether its work is missed."""
        member = self.members.pop((pod.metadata.name, pod.metadata.uid), None)
        if member is None:
            return None
        clocks.stop(member.clock, now)
        self._count(member, -1)
        if counts and member.phase not in _ENDED:
            self.wasted_s += member.clock.done_s
        self.settle(clocks, now)
        return member.request if member.takes_room else None

    def settle(self, clocks: Clocks, now: float) -> None:
        """It begins to work, or stops."""
        works = self.running > 0 and self.running + self.succeeded >= self.least
        if works == self.works:
            return
        self.works = works
        for member in self.members.values():
            if works and member.phase == "Running":
                clocks.start(member.clock, now)
            elif not works:
                clocks.stop(member.clock, now)

    def _count(self, member: Member, sign: int) -> None:
        self.placed += sign * member.takes_room
        self.running += sign * (member.phase == "Running")
        if member.phase == "Succeeded":
            self.succeeded += sign
            for name, units in member.request:
                self.done[name] = self.done.get(name, 0) + sign * units


def _member(pod: Pod) -> Member:
    metadata = pod.metadata
    seconds = run_seconds(pod)
    clock = Clock(
        (metadata.namespace, metadata.name, metadata.uid),
        needs_s=math.inf if seconds is None else seconds,
    )
    return Member(clock, read_task(pod, _NOBODY).kind.request)
