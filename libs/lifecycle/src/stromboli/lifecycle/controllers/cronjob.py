"""The CronJob controller: what a decision about a schedule rests on, gathered from the world."""

from typing import Final

from stromboli.api import kinds
from stromboli.api.owners import is_controlled_by
from stromboli.lifecycle.asking import Asker
from stromboli.lifecycle.controllers.plain import Plain
from stromboli.lifecycle.controllers.protocol import NOTHING_MORE, Case, Verdict
from stromboli.lifecycle.crons import CronSituation, decide_cron
from stromboli.lifecycle.world import World

__all__ = ["CronJobController"]

_CRON: Final = kinds.VC_CRON_JOB.token
_JOB: Final = kinds.VC_JOB.token


class CronJobController(Plain):
    name = "cronjob-controller"
    decides = _CRON
    reads = (_CRON, _JOB)

    def __init__(self) -> None:
        self._starting: dict[str, float] = {}
        """Key → the time that its last decision made a job for."""

    def decide(self, case: Case, world: World, asker: Asker) -> Verdict:
        entry = case.entry
        if entry is None:
            return NOTHING_MORE
        starting = self._starting.pop(case.key, None)
        situation = CronSituation(
            cron=entry.object,
            jobs=tuple(
                job.object
                for job in world.belongings(case.key, _JOB)
                if is_controlled_by(job.object.metadata, entry.object)
            ),
            # It was made, even if somebody was quick to delete it.
            started=None if case.has_failed else starting,
            trouble=case.trouble,
            now=case.now,
        )
        decision = decide_cron(situation, asker)
        if decision.starts is not None:
            self._starting[case.key] = decision.starts
        return Verdict(look_again_at=decision.look_again_at)

    def forget(self, key: str) -> None:
        self._starting.pop(key, None)
