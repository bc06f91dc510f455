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
    origin = f"{task.name}: In hyperNode {name}: {fit_error(session, contender, task, slots)}"
    pods = "1 pod" if found.needed == 1 else f"{found.needed} pods"
    sentence = (
        f"{who} needs {pods} together within tier {found.tier}, "
        f"and the best HyperNode, {name}, has room for {found.fits} of {found.needed}"
    )
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
