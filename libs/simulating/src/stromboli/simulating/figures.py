"""The figures of a run: how long, how full, how fair, who waited, what was in vain."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from stromboli.api.batch import JobPhase
from stromboli.api.kinds import NODE, QUEUE, VC_POD_GROUP
from stromboli.api.scheduling import PodGroup
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.queues import QueueInfo, read_queue
from stromboli.scheduling.resources import PODS
from stromboli.simulating.bookkeeping import JobRecord
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.fairness import Fairness, fairness_of
from stromboli.simulating.running import Run
from stromboli.simulating.trace_report import (
    DEADLOCK,
    Evictions,
    FairnessFigures,
    Figures,
    Interval,
    InVain,
    JobFigures,
    QueueFigures,
    Unfinished,
    Use,
    Waits,
)

__all__ = ["figures_of"]

_INTERVALS: Final = 48
_DIGITS: Final = 4


def figures_of(run: Run) -> Figures:
    books, timeline = run.books, run.books.timeline
    jobs = sorted(books.jobs.values(), key=lambda job: (job.submitted_s, job.key))
    begin = min((job.submitted_s for job in jobs), default=0.0)
    end = _end(jobs, run)
    queues = {
        item.metadata.name: read_queue(item)
        for (kind, _, _), item in run.cluster.objects.items()
        if kind == QUEUE.token
    }
    fairness = fairness_of(timeline, queues, begin, end)
    unfinished = tuple(_unfinished(run, jobs, end))
    return Figures(
        nodes=sum(kind == NODE.token for kind, _, _ in run.cluster.objects),
        jobs=_job_figures(run, jobs),
        makespan_seconds=round(end - begin, 3),
        simulated_seconds=run.end_s,
        is_cut=run.is_cut,
        utilisation=_utilisation(run, begin, end),
        waits=_waits(jobs),
        fairness=FairnessFigures(
            index=_rounded(fairness.index), contended_seconds=round(fairness.contended_s, 3)
        ),
        queues=_by_queue(jobs, queues, fairness),
        evictions=_evictions(run, jobs),
        in_vain=InVain(
            before_start=timeline.held.integral(0.0, end),
            after_eviction=timeline.crippled.integral(0.0, end),
            pods_at_end=round(timeline.held.last + timeline.crippled.last),
        ),
        over_time=tuple(_over_time(run, begin, end)),
        unfinished=unfinished,
        remarks=tuple(_remarks(run, unfinished)),
    )


def _end(jobs: Sequence[JobRecord], run: Run) -> float:
    ends = [job.finished_s for job in jobs]
    if ends and not run.is_cut and all(end is not None for end in ends):
        return max(end for end in ends if end is not None)
    return run.end_s


def _job_figures(run: Run, jobs: Sequence[JobRecord]) -> JobFigures:
    over = [job for job in jobs if job.finished_s is not None]
    completed = sum(job.phase == JobPhase.COMPLETED for job in over)
    given = len(run.trace.arrivals)
    arrived = sum(
        (a.job.metadata.namespace or "default", a.job.metadata.name) in run.books.jobs
        for a in run.trace.arrivals
    )
    return JobFigures(
        submitted=len(jobs),
        completed=completed,
        ended_otherwise=len(over) - completed,
        unfinished=len(jobs) - len(over),
        not_yet_submitted=given - arrived,
    )


def _utilisation(run: Run, begin: float, end: float) -> dict[str, Use]:
    timeline = run.books.timeline
    found: dict[str, Use] = {}
    for resource in timeline.resources:
        if resource == PODS:
            continue
        lines = [q.allocated[resource] for q in timeline.queues.values() if resource in q.allocated]
        there = timeline.capacity[resource].integral(begin, end)
        taken = sum(line.integral(begin, end) for line in lines)
        moments = np.array(sorted({0.0, *(m for line in lines for m in line.moments)}))
        whole = np.maximum(timeline.capacity[resource].at(moments), 1.0)
        peak = float(np.max(sum((line.at(moments) for line in lines), np.zeros(1)) / whole))
        found[resource] = Use(mean=_ratio(taken, there), peak=round(peak, _DIGITS))
    return found


def _waits(jobs: Iterable[JobRecord]) -> Waits | None:
    waits = sorted(round(job.wait_s, 3) for job in jobs if job.wait_s is not None)
    if not waits:
        return None
    return Waits(
        jobs=len(waits),
        mean=round(sum(waits) / len(waits), 3),
        p50=_rank(waits, 0.5),
        p90=_rank(waits, 0.9),
        p99=_rank(waits, 0.99),
        max=waits[-1],
    )


def _rank(ordered: Sequence[float], part: float) -> float:
    """The smallest value that this part of all do not exceed: one of them, never in between."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _by_queue(
    jobs: Sequence[JobRecord], queues: Mapping[str, QueueInfo], fairness: Fairness
) -> dict[str, QueueFigures]:
    found: dict[str, QueueFigures] = {}
    for name in sorted({job.queue for job in jobs}):
        mine = [job for job in jobs if job.queue == name]
        part = fairness.parts.get(name)
        found[name] = QueueFigures(
            weight=queues[name].weight if name in queues else 1,
            jobs=len(mine),
            finished=sum(job.finished_s is not None for job in mine),
            waits=_waits(mine),
            share=_rounded(part.got) if part else None,
            deserved=_rounded(part.deserved) if part else None,
            ratio=_rounded(part.ratio) if part else None,
        )
    return found


def _evictions(run: Run, jobs: Sequence[JobRecord]) -> Evictions:
    evicted = Counter(run.books.job_of.get(pod, pod) for pod in run.cluster.evictions)
    return Evictions(
        pods=sum(evicted.values()),
        jobs=len(evicted),
        wasted_pod_seconds=round(sum(job.gang.wasted_s for job in jobs), 3),
    )


def _over_time(run: Run, begin: float, end: float) -> Iterable[Interval]:
    if end <= begin:
        return
    timeline = run.books.timeline
    borders = np.linspace(begin, end, _INTERVALS + 1)
    resources = [name for name in timeline.resources if name != PODS]
    there = {name: np.maximum(timeline.capacity[name].means(borders), 1.0) for name in resources}
    parts = {
        queue: {
            name: line.allocated[name].means(borders) / there[name]
            for name in resources
            if name in line.allocated
        }
        for queue, line in sorted(timeline.queues.items())
    }
    counts = [
        sum((getattr(line, what).means(borders) for line in timeline.queues.values()), np.zeros(1))
        for what in ("working", "waiting")
    ]
    for number in range(_INTERVALS):
        by_queue = {
            queue: {name: round(float(row[number]), _DIGITS) for name, row in rows.items()}
            for queue, rows in parts.items()
        }
        yield Interval(
            from_seconds=round(float(borders[number]), 3),
            to_seconds=round(float(borders[number + 1]), 3),
            utilisation={
                name: round(
                    sum(float(rows[name][number]) for rows in parts.values() if name in rows),
                    _DIGITS,
                )
                for name in resources
            },
            by_queue=by_queue,
            working=round(float(counts[0][number]), _DIGITS),
            waiting=round(float(counts[1][number]), _DIGITS),
        )


def _unfinished(run: Run, jobs: Sequence[JobRecord], end: float) -> Iterable[Unfinished]:
    reasons = _reasons(run.cluster)
    for job in jobs:
        if job.finished_s is not None:
            continue
        yield Unfinished(
            namespace=job.namespace,
            name=job.name,
            queue=job.queue,
            phase=job.phase,
            waited_seconds=round(
                (end if job.started_s is None else job.started_s) - job.submitted_s, 3
            ),
            pods_on_nodes=job.gang.placed,
            minimum=job.least,
            why="it was still at work" if job.gang.works else reasons.get(job.key, ""),
        )


def _reasons(cluster: Cluster) -> dict[JobKey, str]:
    """By job: why its PodGroup is not placed."""
    found: dict[JobKey, str] = {}
    for (namespace, name), why in cluster.core.explanations.items():
        group = cluster.objects.get((VC_POD_GROUP.token, namespace, name))
        if isinstance(group, PodGroup):
            for owner in group.metadata.owner_references:
                found[namespace, owner.name] = why.text
    return found


def _remarks(run: Run, unfinished: Sequence[Unfinished]) -> Iterable[str]:
    """What a reader must not overlook."""
    if run.is_cut:
        yield f"the run was cut off after {run.end_s:g} s; what was still to come is not counted"
    stuck = [job for job in unfinished if 0 < job.pods_on_nodes < job.minimum]
    if stuck and not run.is_cut and run.books.clocks.next_end == math.inf:
        pods = sum(job.pods_on_nodes for job in stuck)
        yield (
            f"{DEADLOCK}: {len(stuck)} jobs hold {pods} pods on nodes, and none of them has the "
            "minimum that it needs to work; each waits for what the others hold, for ever. "
            "With the plugin gang a job is placed whole or not at all"
        )


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, _DIGITS) if whole else 0.0


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
