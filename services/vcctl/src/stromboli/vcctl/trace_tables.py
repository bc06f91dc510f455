"""The figures of a trace, for people: what came of it in a screenful, the worst first."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from stromboli.simulating.trace_report import Figures, Waits
from stromboli.vcctl.printing import human_duration
from stromboli.vcctl.tables import count, section, stdout

__all__ = ["print_figures"]

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_NO_VALUE: Final = "-"


def print_figures(figures: Figures) -> None:
    out = stdout()
    out.print(Text(_summary(figures), style="bold"))
    for remark in figures.remarks:
        out.print(Text(f"{remark}.", style="bold red"))
    section(
        *(out, "Utilisation", ("Resource", "Mean", "Peak", "Over time")),
        *(list(_utilisation(figures)), "there is nothing to use"),
    )
    section(
        *(out, "Queues", ("Queue", "Weight", "Jobs", "Finished", "Share", "Deserved", "Ratio")),
        *(list(_queues(figures)), "no job was submitted"),
    )
    section(
        *(out, "Waits", ("Queue", "Started", "p50", "p90", "p99", "Max")),
        *(list(_waits(figures)), "no job was submitted"),
    )
    out.print()
    for line in _lines(figures):
        out.print(Text(line))
    section(
        *(out, "Not finished", ("Job", "Queue", "Phase", "Pods", "Waited", "Why")),
        *(list(_unfinished(figures)), "none"),
    )


def _summary(figures: Figures) -> str:
    jobs = figures.jobs
    jobs_on_nodes = f"{count(jobs.submitted, 'job')} on {count(figures.nodes, 'node')}"
    parts = [f"{jobs_on_nodes}: {jobs.completed} completed"]
    if jobs.ended_otherwise:
        parts.append(f"{jobs.ended_otherwise} ended otherwise")
    if jobs.unfinished:
        parts.append(f"{jobs.unfinished} not finished")
    if jobs.not_yet_submitted:
        parts.append(f"{jobs.not_yet_submitted} still to come")
    took = human_duration(figures.makespan_seconds)
    if jobs.unfinished and not figures.is_cut:
        return f"{', '.join(parts)}; nothing happens any more after {took} of virtual time"
    return f"{', '.join(parts)}; {took} of virtual time from the first to the last"


def _utilisation(figures: Figures) -> Iterator[Sequence[str]]:
    for resource, use in figures.utilisation.items():
        row = [interval.utilisation.get(resource, 0.0) for interval in figures.over_time]
        yield resource, f"{use.mean:.1%}", f"{use.peak:.1%}", "".join(map(_block, row))


def _block(part: float) -> str:
    """A little is not nothing, and only all of it is a full block."""
    if part <= 0:
        return _BLOCKS[0]
    return _BLOCKS[max(1, min(len(_BLOCKS) - 1, int(part * (len(_BLOCKS) - 1) + 1e-6)))]


def _queues(figures: Figures) -> Iterator[Sequence[str]]:
    for name, queue in figures.queues.items():
        yield (
            name,
            str(queue.weight),
            str(queue.jobs),
            str(queue.finished),
            *(_part(queue.share), _part(queue.deserved)),
            _NO_VALUE if queue.ratio is None else f"{queue.ratio:.2f}",
        )


def _waits(figures: Figures) -> Iterator[Sequence[str]]:
    for name, queue in figures.queues.items():
        yield (name, *_percentiles(queue.waits))
    if len(figures.queues) > 1:
        yield ("all", *_percentiles(figures.waits))


def _percentiles(waits: Waits | None) -> Sequence[str]:
    if waits is None:
        return ("0", *(_NO_VALUE,) * 4)
    values = (waits.p50, waits.p90, waits.p99, waits.max)
    return (str(waits.jobs), *map(human_duration, values))


def _part(part: float | None) -> str:
    return _NO_VALUE if part is None else f"{part:.1%}"


def _lines(figures: Figures) -> Iterator[str]:
    fairness, evictions, vain = figures.fairness, figures.evictions, figures.in_vain
    if fairness.index is None:
        yield "Fairness between queues: nothing to compare"
    else:
        contended = human_duration(fairness.contended_seconds)
        yield (
            f"Fairness between queues (Jain's index, 1 is best): {fairness.index:.3f}, "
            f"over {contended} in which somebody waited"
        )
    if evictions.pods:
        yield (
            f"Evictions: {count(evictions.pods, 'pod')} of {count(evictions.jobs, 'job')}; "
            f"{_pod_time(evictions.wasted_pod_seconds)} of work to be done again"
        )
    else:
        yield "Evictions: none"
    yield (
        "Held by jobs below their minimum: "
        f"{_pod_time(vain.before_start)} before they started, "
        f"{_pod_time(vain.after_eviction)} after they lost pods"
        + (f"; {count(vain.pods_at_end, 'pod')} at the end" if vain.pods_at_end else "")
    )


def _pod_time(seconds: float) -> str:
    return f"{seconds:g} pod-seconds" if seconds < 3600 else f"{seconds / 3600:.1f} pod-hours"


def _unfinished(figures: Figures) -> Iterator[Sequence[str]]:
    for job in figures.unfinished:
        yield (
            f"{job.namespace}/{job.name}",
            job.queue,
            job.phase,
            f"{job.pods_on_nodes} of {job.minimum}",
            human_duration(job.waited_seconds),
            job.why,
        )
