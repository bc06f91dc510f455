"""Keep pods off nodes that they do not want, or that do not want them.

What depends on the node alone (labels, taints, readiness) is asked once per distinct constraint
and node, and asked again only for nodes that changed. What depends on other pods (ports, affinity
between pods, spreading, room for volumes) is asked anew for every pod, over all nodes at once.
Other room is not looked at here: the actions know what is free, now and soon.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stromboli.api.core import Taint, Toleration
from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.masks import Masks, chooses, tolerates
from stromboli.scheduling.neighbours import Neighbours
from stromboli.scheduling.nodes import NodeTable
from stromboli.scheduling.plugins.api import Refusal, Verdict
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskClass
from stromboli.scheduling.resources import BoolPerNode
from stromboli.scheduling.social import Social, Spread
from stromboli.scheduling.spreading import domain_counts, eligible
from stromboli.scheduling.volumes import Volumes, shares_zone

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

NAME: Final = "predicates"

UNSCHEDULABLE: Final = "node(s) were unschedulable"
NOT_READY: Final = "node(s) were not ready"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TAINTS: Final = "node(s) had untolerated taint(s)"
PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
NEAR: Final = "node(s) didn't match pod affinity rules"
APART: Final = "node(s) didn't match pod anti-affinity rules"
UNWELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL: Final = f"{SPREAD} (missing required label)"
VOLUME_NODES: Final = "node(s) had volume node affinity conflict"
VOLUME_ZONE: Final = "node(s) had no available volume zone"
VOLUME_COUNT: Final = "node(s) exceed max volume count"
VOLUME_TAKEN: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"

VOLUME_WAIT: Final = "VolumeWait"

_UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class Args(msgspec.Struct, frozen=True):
    """Switches, by Volcano's names; of how volumes and devices are bound nobody reads any yet."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    topology_spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")
    devices: bool = msgspec.field(default=False, name="predicate.DynamicResourceAllocationEnable")
    bind_timeout_s: int = msgspec.field(default=600, name="volumebinding.bindTimeoutSeconds")
    binding_weight: float = msgspec.field(default=1.0, name="volumebinding.weight")
    binding_shape: Any = msgspec.field(default=None, name="volumebinding.shape")
    filter_timeout_s: int = msgspec.field(default=10, name="dynamicresources.filterTimeoutSeconds")


class Predicates:
    """Filters nodes by what is written on them, and by who stands there."""

    name = NAME
    is_even_handed = True

    def __init__(self, args: Args) -> None:
        self._args = args
        self._masks = Masks()
        self._nodes: NodeTable | None = None
        self._session: Session | None = None
        self._known: Volumes | None = None

    def opened(self, session: "Session") -> None:
        self._session, self._known = session, None

    # Its claims alone.

    def hopeless(self, contender: Contender, kind: TaskClass) -> Refusal | None:
        if not kind.claims or (volumes := self._volumes()) is None:
            return None
        args, said = self._args, ""
        if args.volume_binding or args.volume_zone or args.volume_limits:
            said = volumes.problem(kind)
        if not said and args.volume_binding and volumes.waits_for_binding(kind):
            said = UNBOUND
        return Refusal("NotEnoughResources", said, code=VOLUME_WAIT) if said else None

    def _volumes(self) -> Volumes | None:
        if self._known is None and self._session is not None:
            self._known = Volumes(self._session)
        return self._known

    # The node alone.

    def feasible(self, kind: TaskClass, nodes: NodeTable) -> list[Verdict]:
        self._nodes = nodes
        verdicts = [
            Verdict(UNSCHEDULABLE, self._open_to(kind.tolerations, nodes)),
            Verdict(NOT_READY, self._masks.ask(nodes, NOT_READY, lambda node: node.ready)),
        ]
        if self._args.node_affinity and (kind.node_selector or kind.required is not None):
            verdicts.append(Verdict(AFFINITY, self._masks.chosen_by(kind, nodes)))
        if self._args.taint_toleration:
            verdicts.append(Verdict(TAINTS, self._masks.bearable(kind.tolerations, nodes)))
        if kind.claims and (volumes := self._volumes()) is not None:
            verdicts += self._within_reach(kind, volumes, nodes)
        return verdicts

    def _within_reach(
        self, kind: TaskClass, volumes: Volumes, nodes: NodeTable
    ) -> Iterator[Verdict]:
        """Nodes from which the volumes of a class can be used."""
        if self._args.volume_zone and (zones := volumes.zones(kind)):
            yield Verdict(
                VOLUME_ZONE, self._masks.ask(nodes, (VOLUME_ZONE, zones), shares_zone(zones))
            )
        if self._args.volume_binding:
            for selector in volumes.selectors(kind):
                reaches = partial(chooses, selector=(), required=selector)
                yield Verdict(
                    VOLUME_NODES, self._masks.ask(nodes, (VOLUME_NODES, selector), reaches)
                )

    def _open_to(self, tolerations: tuple[Toleration, ...], nodes: NodeTable) -> BoolPerNode:
        tolerated = tolerates(tolerations, _UNSCHEDULABLE_TAINT)
        return self._masks.ask(
            nodes, (UNSCHEDULABLE, tolerated), lambda node: tolerated or not node.unschedulable
        )

    # Those who stand there.

    def tolerable(self, task: Task, neighbours: Neighbours) -> list[Verdict]:
        social = task.kind.social or Social()
        verdicts: list[Verdict] = []
        if self._args.node_ports and social.ports:
            free = ~np.logical_or.reduce([neighbours.taken(port) for port in social.ports])
            verdicts.append(Verdict(PORTS, free))
        if self._args.pod_affinity:
            if social.near:
                verdicts.append(Verdict(NEAR, _near(task, social, neighbours)))
            verdicts += [
                Verdict(APART, ~(neighbours.in_domain(term.topology, neighbours.picked(term)) > 0))
                for term in social.apart
            ]
            verdicts.append(Verdict(UNWELCOME, ~neighbours.unwelcoming(task)))
        if self._args.topology_spread:
            for spread in social.spreads:
                if spread.is_hard:
                    verdicts += self._even(task, spread, neighbours)
        if task.kind.claims and (volumes := self._volumes()) is not None:
            verdicts += self._attachable(task.kind, volumes, neighbours)
        return verdicts

    def _attachable(
        self, kind: TaskClass, volumes: Volumes, neighbours: Neighbours
    ) -> Iterator[Verdict]:
        if self._args.volume_limits:
            has_room = volumes.has_room_for(kind, neighbours.moves)
            if has_room is not None:
                yield Verdict(VOLUME_COUNT, has_room)
        if self._args.volume_binding and volumes.is_taken(kind, neighbours.moves):
            yield Verdict(VOLUME_TAKEN, np.zeros(neighbours.width, dtype=np.bool_))

    def _even(self, task: Task, spread: Spread, neighbours: Neighbours) -> list[Verdict]:
        """Nodes whose domain would not get too far ahead of the emptiest one."""
        codes, _ = neighbours.codes(spread.term.topology)
        labelled = codes >= 0
        counted = eligible(spread, labelled, *self._policies(task.kind, labelled))
        per_domain, exists = domain_counts(spread, neighbours, counted)
        least = int(per_domain[exists].min()) if exists.any() else 0
        if int(exists.sum()) < spread.min_domains:
            least = 0
        itself = spread.term.selector.matches(task.labels)
        skew = per_domain[np.maximum(codes, 0)] + itself - least
        return [
            Verdict(SPREAD_LABEL, labelled),
            Verdict(SPREAD, labelled & (skew <= spread.max_skew)),
        ]

    def _policies(self, kind: TaskClass, labelled: BoolPerNode) -> tuple[BoolPerNode, BoolPerNode]:
        nodes = self._nodes
        if nodes is None or len(nodes) != len(labelled):
            return labelled, labelled
        return self._masks.chosen_by(kind, nodes), self._masks.bearable(kind.tolerations, nodes)


def _near(task: Task, social: Social, neighbours: Neighbours) -> BoolPerNode:
    """Near all that it wants near; the first of a kind that wants its own is welcome anywhere."""
    passes: BoolPerNode | None = None
    anybody = False
    labelled: BoolPerNode | None = None
    for term in social.near:
        counts = neighbours.picked(term)
        anybody = anybody or bool(counts.any())
        near = neighbours.in_domain(term.topology, counts) > 0
        inside = neighbours.codes(term.topology)[0] >= 0
        passes = near if passes is None else passes & near
        labelled = inside if labelled is None else labelled & inside
    if passes is None or labelled is None:
        return np.ones(0, dtype=np.bool_)
    wants_its_own = all(neighbours.picks(term, task) for term in social.near)
    return labelled if wants_its_own and not anybody else passes


def build(arguments: Mapping[str, Any]) -> Predicates:
    return Predicates(read_arguments(NAME, Args, arguments))
