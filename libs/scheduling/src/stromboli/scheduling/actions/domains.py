"""Which parts of the network to try for pods that must stand together, the best first.

Trying a part means placing the whole gang there, so parts that have no room for as many pods as
are needed are left out before: how many pods of each class fit on each node is known, and the sum
over the nodes of a part is the most that it could take.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from stromboli.scheduling.jobs import READY, Contender
from stromboli.scheduling.network import Network
from stromboli.scheduling.placing import capacities
from stromboli.scheduling.plugins.api import FewDomains, Gathering
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import IntVector, added
from stromboli.scheduling.session import Session
from stromboli.scheduling.subgroups import GroupKey
from stromboli.scheduling.topology_reasons import Scattered

__all__ = ["Togetherness", "heeds_network", "of_group", "of_job"]


@dataclass(frozen=True)
class Togetherness:
    """Pods that wait and must stand together, and how far apart they may."""

    session: Session
    contender: Contender
    tasks: Sequence[Task]
    """Those that wait."""
    needed: int
    """So many of them must find a place at once."""
    root: int
    """Nothing outside of this domain is looked at."""
    tier: int | None
    """The highest that they may be spread over; None: they do not ask."""
    gathering: Gathering
    group: str = ""
    """The policy of the sub-group that they are."""

    @property
    def network(self) -> Network:
        return self.session.network

    # What may be tried.

    @cached_property
    def reach(self) -> int | None:
        """The widest domain that those who have a place can be joined in; None: there is none."""
        if self.tier is None or not len(self.gathering.standing):
            return self.root
        network = self.network
        around = network.reach(network.smallest(self.gathering.standing), self.tier)
        if around is None:
            return None
        if around in network.lineage(self.root):
            return self.root
        return around if self.root in network.lineage(around) else None

    def domains(self, *, evicting: bool = False) -> Iterator[int]:
        """In the order in which to try them."""
        if self.tier is None:
            yield self.root
        elif self.reach is not None:
            nominated = None if evicting else self._nominated()
            if nominated is not None:
                yield nominated
            groups = self._gradients(evicting=evicting)
            found = (
                domain for group in groups for domain in self._ordered(group, evicting=evicting)
            )
            yield from islice(found, self._most) if evicting else found

    @property
    def _most(self) -> int | None:
        """So many are tried at most, of those that could do at all."""
        plugin = self.session.panel.gradients[0]
        return plugin.most_domains if isinstance(plugin, FewDomains) else None

    def _gradients(self, *, evicting: bool) -> list[IntVector]:
        if self.reach is None or self.tier is None:
            return []
        plugin = self.session.panel.gradients[0]
        return plugin.gradients(self.network, self.reach, self.tier, evicting=evicting)

    def _nominated(self) -> int | None:
        """Where others make room for these pods."""
        named = (self.session.nominated.get(task.uid) for task in self.tasks)
        slots = [self.session.nodes.slot(node) for node in named if node]
        found = [slot for slot in slots if slot is not None]
        if not found or self.reach is None or self.tier is None:
            return None
        domain = self.network.smallest(np.array([*found, *self.gathering.standing.tolist()]))
        is_allowed = self.reach in self.network.lineage(domain)
        return domain if is_allowed and self.network.tiers[domain] <= self.tier else None

    def _ordered(self, group: IntVector, *, evicting: bool) -> list[int]:
        """First those near the others, then where room is now, then by score and name."""
        room = self._when_empty if evicting else self._later
        group = group[room[group] >= self.needed]
        if not len(group):
            return []
        if evicting:  # who has most room has fewest who must go
            return group[np.argsort(-self._later[group], kind="stable")].tolist()
        score = np.zeros(len(group))
        for plugin in self.session.panel.domain_order:
            score += plugin.domain_scores(self.gathering, group)
        distance = np.zeros(len(group))
        if len(self.gathering.standing):
            at = self.network.smallest(self.gathering.standing)
            distance = self.network.tiers[self.network.meeting(at)[group]]
        must_wait = self._now[group] < self.needed
        return group[np.lexsort((group, -score, must_wait, distance))].tolist()

    # How many fit.

    @cached_property
    def _classes(self) -> dict[TaskClass, int]:
        counts: dict[TaskClass, int] = {}
        for task in self.tasks:
            counts[task.kind] = counts.get(task.kind, 0) + 1
        return counts

    @cached_property
    def _now(self) -> IntVector:
        """The most of these pods that each domain could take at once."""
        outlook = self.session.choosing.outlook
        return self._fitting(outlook(self.contender, kind).now for kind in self._classes)

    @cached_property
    def _later(self) -> IntVector:
        if not self.session.waits_possible:
            return self._now
        outlook = self.session.choosing.outlook
        return self._fitting(outlook(self.contender, kind).later for kind in self._classes)

    @cached_property
    def _when_empty(self) -> IntVector:
        """The most that each could take if nobody else were there."""
        outlooks = [self.session.choosing.outlook(self.contender, kind) for kind in self._classes]
        return self._fitting(
            capacities(self.session.allocatable[: len(each.vector)], each.vector, each.feasible)
            for each in outlooks
        )

    def _fitting(self, rooms: Iterable[IntVector]) -> IntVector:
        total = np.zeros(len(self.network), dtype=np.int64)
        for room, count in zip(rooms, self._classes.values(), strict=True):
            total += np.minimum(self.network.sums(np.minimum(room, count)), count)
        return total

    # Why not.

    @property
    def is_short_of_room(self) -> bool:
        """Whether it would not fit either if it might stand anywhere in there."""
        return bool(self._later[self.root] < self.needed)

    def scattered(self, *, groups: int = 0, pods: int = 0) -> Scattered:
        """What the best domain lacks; `groups` that must be whole take so many `pods` at least."""
        needed = max(self.needed, pods)
        allowed = [domain for group in self._gradients(evicting=False) for domain in group.tolist()]
        tier = self.tier if self.tier is not None else self.network.top_tier
        if not allowed:
            can_ever = self.reach is not None
            return Scattered(tier, None, 0, needed, can_ever=can_ever, group=self.group)
        rooms = self._later[allowed]
        best = allowed[int(np.argmax(rooms))]
        return Scattered(
            tier,
            best,
            int(min(rooms.max(), needed)),
            needed,
            can_ever=bool((self._when_empty[allowed] >= needed).any()),
            group=self.group,
            groups=groups,
        )


def heeds_network(session: Session, contender: Contender) -> bool:
    """Whether the job asks to stand close together, and somebody knows what that means."""
    return bool(session.panel.gradients) and contender.job.is_tied_to_network


def of_job(
    session: Session, contender: Contender, needed: int, tasks: Sequence[Task] | None = None
) -> Togetherness:
    """The whole of a job, or those of its waiting pods that are to be placed."""
    job, network = contender.job, session.network
    spec = job.pod_group.spec if job.pod_group else None
    tier = network.highest(spec.network_topology if spec else None, within=None)
    return Togetherness(
        session,
        contender,
        contender.waiting if tasks is None else tasks,
        needed,
        network.top,
        tier,
        Gathering(
            tuple(job.requested.items()),
            len(job.tasks),
            session.whereabouts.standing(contender),
        ),
    )


def of_group(
    session: Session,
    contender: Contender,
    key: GroupKey,
    tasks: Sequence[Task],
    *,
    needed: int,
    root: int,
) -> Togetherness:
    """A sub-group, inside the domain where its job is being placed."""
    job, network, grouping = contender.job, session.network, contender.job.grouping
    spec = job.pod_group.spec if job.pod_group else None
    within = network.highest(spec.network_topology if spec else None, within=None)
    policy = grouping.policies[key[0]] if grouping else None
    tier = network.highest(policy.network_topology if policy else None, within=within)
    others: list[Task] = []
    standing = np.zeros(0, dtype=np.int64)
    if tier is not None and grouping is not None and job.ready:
        standing = session.whereabouts.standing(contender, lambda task: grouping.of(task) == key)
        others = [task for task in job.in_status(*READY) if grouping.of(task) == key]
    everyone = [*tasks, *others]
    request = added(task.kind.request for task in everyone)
    gathering = Gathering(request, len(everyone), standing)
    name = policy.name if policy else ""
    return Togetherness(session, contender, tasks, needed, root, tier, gathering, name)
