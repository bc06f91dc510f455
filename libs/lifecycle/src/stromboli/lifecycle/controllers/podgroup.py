"""The PodGroup controller: gangs for the pods that other operators make."""

from collections.abc import Iterator
from typing import Final

from stromboli.api import kinds
from stromboli.api.core import Pod
from stromboli.api.wellknown import SCHEDULER_NAME
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import NOTHING_MORE, Case, Verdict
from stromboli.lifecycle.gangs import GangSituation, Workload, decide_gang
from stromboli.lifecycle.world import World

__all__ = ["PodGroupController"]

_GROUP: Final = kinds.VC_POD_GROUP.token
_WORKLOADS: Final = (
    kinds.REPLICA_SET.token,
    kinds.STATEFUL_SET.token,
    kinds.DAEMON_SET.token,
    kinds.K8S_JOB.token,
)


class PodGroupController(Plain):
    name = "pg-controller"
    decides = _GROUP
    reads = (_GROUP, *_WORKLOADS, kinds.POD.token)
    ends_with_object = False

    def __init__(
        self,
        scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME}),
        *,
        inherits: bool = True,
    ) -> None:
        self._scheduler_names = scheduler_names
        self._inherits = inherits

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        situation = GangSituation(
            name=case.name,
            group=case.entry,
            pods=tuple(self._pods(case, world)),
            owner=_owner(case, world),
            inherits=self._inherits,
            trouble=case.trouble,
            now=case.now,
        )
        decide_gang(situation, asker)
        return NOTHING_MORE

    def _pods(self, case: Case, world: World) -> Iterator[Pod]:
        for entry in world.belongings(case.key, kinds.POD.token):
            if entry.object.spec.scheduler_name in self._scheduler_names:
                yield entry.object


def _owner(case: Case, world: World) -> Workload | None:
    for kind in _WORKLOADS:
        for entry in world.belongings(case.key, kind):
            return entry.object
    return None
