"""A pod that has only just begun is left in peace for as long as it asks for.

The pod says how long (`volcano.sh/cooldown-time`), counted from when it got its node.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.api.wellknown import COOLDOWN_TIME
from stromboli.scheduling.moments import duration_s, moment_of
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task, TaskStatus
from stromboli.scheduling.session import Session

NAME: Final = "cdp"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class CooldownProtection:
    """Takes pods that cool down off the lists of victims."""

    name = NAME
    judges_victims = True

    def __init__(self) -> None:
        self._session: Session | None = None

    def opened(self, session: Session) -> None:
        self._session = session

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return [victim for victim in candidates if not self._is_protected(claim, victim)]

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return [victim for victim in candidates if not self._is_protected(claim, victim)]

    def _is_protected(self, claim: Claim, victim: Task) -> bool:
        said = victim.annotations.get(COOLDOWN_TIME) or victim.labels.get(COOLDOWN_TIME, "")
        if not said or victim.status is not TaskStatus.RUNNING or self._session is None:
            return False
        cooldown_s = duration_s(said)
        since = moment_of(victim.bound_at)
        if cooldown_s is None or since is None:
            return False  # as in Volcano, what can't be read protects nobody
        until = since + cooldown_s
        if self._session.now >= until:
            return False
        self._session.look_again(claim.contender.key, until)
        return True


def build(arguments: Mapping[str, Any]) -> CooldownProtection:
    read_arguments(NAME, Args, arguments)
    return CooldownProtection()
