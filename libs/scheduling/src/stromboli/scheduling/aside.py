"""Objects that can't be reckoned with: set aside with the reason, told of once, until mended.

A pod among them still belongs to its job, which says so: else a gang would wait for a pod that
everybody can see.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from stromboli.api.core import Pod
from stromboli.contracts.stimuli import FactChanged
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.fact_reading import UnfitPod
from stromboli.scheduling.pods import JobKey, read_notes

__all__ = ["Aside", "group_named"]

_Place: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(slots=True)
class Aside:
    """What was set aside, and why."""

    why: dict[_Place, str] = field(default_factory=dict[_Place, str])
    _untold: list[tuple[FactChanged, str]] = field(default_factory=list[tuple[FactChanged, str]])
    _jobs: dict[_Place, JobKey] = field(default_factory=dict[_Place, JobKey])
    """Of pods that are ours to place."""

    def put(self, fact: FactChanged, bad: BadFact, *, before: str, job: JobKey | None) -> bool:
        """Whether that is news; `before` is why it was set aside until now."""
        said = f"{fact.namespace}/{fact.name}: {bad}"
        self.why[_place(fact)] = said
        if job is not None:
            self._jobs[_place(fact)] = job
        if said != before:
            self._untold.append((fact, bad.problem))
        return said != before

    def take_back(self, fact: FactChanged) -> tuple[str, JobKey | None]:
        """There is something new to say of it: why it was set aside, and whose pod it is."""
        before = self.why.pop(_place(fact), "")
        return before, self._jobs.pop(_place(fact), None) if before else None

    def tell(self) -> list[tuple[FactChanged, str]]:
        """Those that nobody has been told of yet, and what is wrong with each."""
        untold, self._untold = self._untold, []
        return untold


def _place(fact: FactChanged) -> _Place:
    return (fact.kind, fact.namespace, fact.name)


def group_named(item: object, scheduler_names: Collection[str]) -> str:
    """The PodGroup of a pod that is ours to place and can't be reckoned with."""
    match item:
        case UnfitPod(group=group):
            return group
        case Pod() if item.spec.scheduler_name in scheduler_names:
            return read_notes(item.metadata.annotations).group
        case _:
            return ""
