"""Which tasks of a job wait for which, and what follows from the job alone."""

from collections.abc import Callable, Sequence

from stromboli.api.batch import JobSpec, TaskSpec

__all__ = ["ANY", "may_start_when", "startable_at_first", "waits_for"]

ANY = "any"
"""The `iteration` of a task that waits for one of several, not for all."""


def waits_for(task: TaskSpec) -> Sequence[str]:
    return task.depends_on.name if task.depends_on is not None else ()


def may_start_when(task: TaskSpec, is_ready: Callable[[str], bool]) -> bool:
    """Whether a task may start: all that it waits for are ready, or any where that is enough."""
    names = waits_for(task)
    if task.depends_on is not None and task.depends_on.iteration == ANY and len(names) > 1:
        return any(map(is_ready, names))
    return all(map(is_ready, names))


def startable_at_first(spec: JobSpec) -> int:
    """How many pods can be made before any pod of the job runs."""
    needs = {task.name: task.min_available or 0 for task in spec.tasks}
    return sum(
        task.replicas
        for task in spec.tasks
        if may_start_when(task, lambda name: needs.get(name, 0) == 0)
    )
