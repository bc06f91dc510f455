"""No more pods of an application are asked to go than its disruption budgets allow.

As in Volcano, a pod without labels, which no budget can speak for, is never a victim while this
plugin is on; and for `shuffle` it names everybody whom the budgets allow to go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from stromboli.api.core import PodDisruptionBudget
from stromboli.api.errors import SelectorError
from stromboli.scheduling.plugins.api import Claim
from stromboli.scheduling.plugins.arguments import read_arguments
from stromboli.scheduling.pods import Task
from stromboli.scheduling.session import Session

NAME: Final = "pdb"
KIND: Final = "poddisruptionbudget"


class Args(msgspec.Struct, frozen=True):
    """Takes none."""


class DisruptionBudgets:
    """Counts what the budgets still allow."""

    name = NAME
    is_impartial = True
    judges_victims = True

    def __init__(self) -> None:
        self._session: Session | None = None

    def opened(self, session: Session) -> None:
        self._session = session

    def preemptable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._allowed(candidates)

    def reclaimable(self, claim: Claim, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._allowed(candidates)

    def victims(self, running: Sequence[Task]) -> Sequence[Task]:
        return self._allowed(running)

    def _allowed(self, candidates: Sequence[Task]) -> list[Task]:
        if self._session is None:
            return []
        budgets: Mapping[tuple[str, str], PodDisruptionBudget] = self._session.objects(KIND)
        left = {key: budget.status.disruptions_allowed for key, budget in budgets.items()}
        on_trial = (eviction.task for eviction in self._session.trial.evicted.values())
        for task in (*on_trial, *self._session.leaving):
            for key in _matching(task, budgets):
                left[key] -= 1
        found: list[Task] = []
        for task in candidates:
            if not task.labels:
                continue
            matching = _matching(task, budgets)
            if all(left[key] > 0 for key in matching):
                for key in matching:
                    left[key] -= 1
                found.append(task)
        return found


def _matching(
    task: Task, budgets: Mapping[tuple[str, str], PodDisruptionBudget]
) -> list[tuple[str, str]]:
    """Budgets that speak for the pod and have not counted it already."""
    return [
        key
        for key, budget in budgets.items()
        if key[0] == task.namespace
        and task.name not in budget.status.disrupted_pods
        and _speaks_for(budget, task)
    ]


def _speaks_for(budget: PodDisruptionBudget, task: Task) -> bool:
    selector = budget.spec.selector
    if selector is None:
        return False
    try:
        return selector.matches(task.labels)
    except SelectorError:
        return False  # an operator that nobody knows picks nothing


def build(arguments: Mapping[str, Any]) -> DisruptionBudgets:
    read_arguments(NAME, Args, arguments)
    return DisruptionBudgets()
