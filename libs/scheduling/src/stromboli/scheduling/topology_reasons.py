"""Why pods that must stand together found no part of the network for all of them.

Room that is free in many places is no room for them; so it is said how many of them the best part
could take. When they would not fit in there even if it were empty, no pod's end can help.
"""

from dataclasses import dataclass

from stromboli.scheduling.explain import Code, Explanation, Unblock, fit_error, needed_at_once
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import Task
from stromboli.scheduling.session import Session

__all__ = ["Scattered", "scattered"]


@dataclass(frozen=True, slots=True)
class Scattered:
    """What the best domain lacks."""

    tier: int
    domain: int | None
    """The one with most room; None where none may be looked at."""
    fits: int
    needed: int
    can_ever: bool
    """Whether all would fit into one that is empty."""
    group: str = ""
    """The policy of the sub-group that it is about."""
    groups: int = 0
    """How many sub-groups, each of them whole, the pods make up at least."""

    @property
    def pods(self) -> str:
        counted = "1 pod" if self.needed == 1 else f"{self.needed} pods"
        if not self.groups:
            return counted
        wholes = "1 whole sub-group" if self.groups == 1 else f"{self.groups} whole sub-groups"
        return f"{counted} ({wholes})"

    @property
    def is_room_enough(self) -> bool:
        """Whether all would fit by their number, and other things stand against it."""
        return self.fits >= self.needed


def scattered(session: Session, contender: Contender, task: Task, found: Scattered) -> Explanation:
    """Look before the trial is rolled back: what was tried is what is in the best domain."""
    network = session.network
    unblock = Unblock.TOPOLOGY if found.can_ever else Unblock.NODES
    who = f"a sub-group {found.group!r}" if found.group else "it"
    if found.domain is None:
        origin = f"{task.name}: {fit_error(session, contender, task)}"
        sentence = (
            f"there is no HyperNode of tier {found.tier} or lower"
            if found.can_ever
            else f"its pods stand further apart than tier {found.tier}, so none can join them"
        )
        return Explanation(
            Code.TOPOLOGY_FRAGMENTED, sentence, Unblock.NODES, origin=origin, pod=task.uid
        )
    slots = network.slots(found.domain)
    name = network.names[found.domain]
    one_by_one = f"there is room for {found.fits} of the {found.needed} pods that must be together"
    if found.is_room_enough:
        one_by_one = f"each of the {found.needed} pods has room alone, and not all together"
    why = fit_error(session, contender, task, slots, otherwise=one_by_one)
    origin = f"{task.name}: In hyperNode {name}: {why}"
    sentence = (
        f"{who} needs {found.pods} together within tier {found.tier}, "
        f"and the best HyperNode, {name}, has room for "
    )
    if found.is_room_enough:
        sentence += f"as many, but not for these at once ({contender.seated} found a place)"
    else:
        sentence += f"{found.fits} of {found.needed}"
    if not found.can_ever:
        sentence += "; none could take them all even if it were empty"
    return Explanation(
        Code.TOPOLOGY_FRAGMENTED,
        sentence,
        unblock,
        need=needed_at_once(contender, task) if found.can_ever else (),
        origin=origin,
        pod=task.uid,
        schedulable=sum(contender.placed.values()) + sum(contender.pipelined.values()),
    )
