"""Sub-groups: parts of a gang that are placed as units, as the PodGroup's policies cut them.

A pod belongs to the first policy whose selector picks it and of whose label keys it has at least
one; pods of one policy with the same values are one sub-group. A pod of no policy belongs to the
gang alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stromboli.api.errors import SelectorError
from stromboli.api.scheduling import SubGroupPolicy
from stromboli.scheduling.pods import Task

__all__ = ["GroupKey", "Grouping"]

GroupKey: TypeAlias = tuple[int, tuple[str, ...]]
"""Number of the policy, and the values of its label keys."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The policies of one PodGroup."""

    policies: tuple[SubGroupPolicy, ...]

    def of(self, task: Task) -> GroupKey | None:
        for number, policy in enumerate(self.policies):
            if not _picks(policy, task.labels):
                continue
            values = tuple(task.labels.get(key, "") for key in policy.match_label_keys)
            if any(values):
                return number, values
        return None

    def size(self, key: GroupKey) -> int:
        """How many ready pods make the sub-group ready."""
        return self.policies[key[0]].sub_group_size or 1

    def missing(self, counts: Mapping[GroupKey, int]) -> int:
        """How many more sub-groups must be complete, given the ready pods of each."""
        return sum(
            max(0, (policy.min_sub_groups or 0) - self._complete(number, counts))
            for number, policy in enumerate(self.policies)
        )

    def pods_missing(self, counts: Mapping[GroupKey, int], waiting: Mapping[GroupKey, int]) -> int:
        """How many pods at least the sub-groups take that must still become complete."""
        total = 0
        for number, policy in enumerate(self.policies):
            lacking = (policy.min_sub_groups or 0) - self._complete(number, counts)
            short = sorted(
                self.size(key) - counts.get(key, 0) for key in waiting if key[0] == number
            )
            total += sum([pods for pods in short if pods > 0][: max(0, lacking)])
        return total

    def _complete(self, number: int, counts: Mapping[GroupKey, int]) -> int:
        return sum(
            of_policy == number and ready >= self.size((of_policy, values))
            for (of_policy, values), ready in counts.items()
        )

    def count(self, tasks: Iterable[Task]) -> dict[GroupKey, int]:
        counts: dict[GroupKey, int] = {}
        for task in tasks:
            key = self.of(task)
            if key is not None:
                counts[key] = counts.get(key, 0) + 1
        return counts


def _picks(policy: SubGroupPolicy, labels: Mapping[str, str]) -> bool:
    if policy.label_selector is None:
        return True
    try:
        return policy.label_selector.matches(labels)
    except SelectorError:
        return False  # an operator that nobody knows picks nothing
