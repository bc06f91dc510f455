"""What a gang can do without: so many pods, so many of each role, so many whole sub-groups."""

from stromboli.scheduling.jobs import Contender
from stromboli.scheduling.pods import Task
from stromboli.scheduling.subgroups import GroupKey

__all__ = ["Spare"]


class Spare:
    """Of one job as the cycle has left it; pods are taken one after the other."""

    def __init__(self, contender: Contender) -> None:
        job = contender.job
        self._pods = contender.ready() - job.min_member
        self._roles = {
            role: contender.ready(role) - least for role, least in job.role_minimums.items()
        }
        self._groups = _Groups(contender)

    @property
    def is_broken(self) -> bool:
        """Whether it has less than its minimum already."""
        return self._pods < 0

    def take(self, task: Task) -> bool:
        """Whether the gang can do without this pod too; then it is gone."""
        role = task.role
        if self._pods <= 0 or self._roles.get(role, 1) <= 0 or not self._groups.may_lose(task):
            return False
        self._pods -= 1
        if role in self._roles:
            self._roles[role] -= 1
        self._groups.lose(task)
        return True


class _Groups:
    """How many whole sub-groups of each policy a gang has beyond what it needs."""

    def __init__(self, contender: Contender) -> None:
        self._grouping = grouping = contender.job.grouping
        self._broken: dict[GroupKey, None] = {}
        self._surplus: list[int] = []
        if grouping is not None:
            whole = {
                key: ready >= grouping.size(key)
                for key, ready in contender.group_counts(pipelined=False).items()
            }
            self._broken = {key: None for key, is_whole in whole.items() if not is_whole}
            self._surplus = [
                sum(is_whole and key[0] == number for key, is_whole in whole.items())
                - (policy.min_sub_groups or 0)
                for number, policy in enumerate(grouping.policies)
            ]

    def may_lose(self, task: Task) -> bool:
        key = self._grouping.of(task) if self._grouping else None
        return key is None or key in self._broken or self._surplus[key[0]] > 0

    def lose(self, task: Task) -> None:
        key = self._grouping.of(task) if self._grouping else None
        if key is not None and key not in self._broken:
            self._broken[key] = None
            self._surplus[key[0]] -= 1
