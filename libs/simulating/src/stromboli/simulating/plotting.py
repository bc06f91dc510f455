"""A picture of a run: who had how much of the cluster, how long jobs waited, how many worked.

Matplotlib is imported only here and only when a picture is asked for. The colours are those of
Okabe and Ito, which people with any kind of colour vision can tell apart; queues differ by
marker and hatching too. The same run gives the same bytes.
"""

import importlib.util
import io
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stromboli.api.resources import from_base_units
from stromboli.simulating.errors import SimulationError
from stromboli.simulating.running import Run
from stromboli.simulating.steps import Floats, Steps, grid
from stromboli.simulating.trace_report import Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FORMATS", "CannotPlot", "check_format", "picture"]

FORMATS: Final = ("png", "svg", "pdf")
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES: Final = ("", "///", "...", "\\\\\\", "xxx", "---", "+++")
_MOST_STEPS: Final = 1200
"""More would be finer than the picture's pixels."""
_UNDATED: Final = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class CannotPlot(SimulationError):
    """There is no way to draw it here."""


class _Time(NamedTuple):
    """The unit of the time axis."""

    name: str
    seconds: float


class _Style(NamedTuple):
    colour: str
    marker: str
    hatch: str


def picture(run: Run, figures: Figures, *, file_name: str, title: str) -> bytes:
    """The content of a file of that name; its ending says the format. Raises CannotPlot."""
    form = check_format(file_name)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    content = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "stromboli", "font.size": 10, "hatch.linewidth": 0.4}):
        drawing = Figure(figsize=(11, 8.5), layout="constrained")
        drawing.suptitle(_heading(title, figures), fontsize=13, fontweight="bold")
        axes: Sequence[Axes] = drawing.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
        _draw(axes, run, figures)
        drawing.savefig(content, format=form, dpi=120, metadata=_UNDATED[form])
    return content.getvalue()


def _heading(title: str, figures: Figures) -> str:
    """With a word about a deadlock: without one it looks like a cluster that is well used."""
    return " \N{EN DASH} ".join(part for part in (title, figures.deadlock) if part)


def check_format(file_name: str) -> str:
    """The format that the file's ending names; before a long run, so that it is not in vain."""
    form = PurePath(file_name).suffix.removeprefix(".").lower()
    if form not in FORMATS:
        endings = ", ".join(f".{each}" for each in FORMATS)
        raise CannotPlot(f"the picture {file_name!r} can not be drawn: expected one of {endings}")
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotPlot(
            "a picture needs matplotlib, which is not installed: "
            "pip install 'stromboli-simulating[plot]'"
        )
    return form


def _draw(axes: "Sequence[Axes]", run: Run, figures: Figures) -> None:
    timeline = run.books.timeline
    begin = min((job.submitted_s for job in run.books.jobs.values()), default=0.0)
    end = max(begin + figures.makespan_seconds, begin + 1.0)
    time = _unit(end - begin)
    styles = {
        name: _Style(
            _COLOURS[number % len(_COLOURS)],
            _MARKERS[number % len(_MARKERS)],
            _HATCHES[number // len(_COLOURS) % len(_HATCHES)],
        )
        for number, name in enumerate(sorted(timeline.queues))
    }
    _draw_use(axes[0], run, figures, styles=styles, span=(begin, end), time=time)
    _draw_waits(axes[1], run, styles, begin, time)
    _draw_jobs(axes[2], run, styles, (begin, end), time)
    for each in axes:
        each.grid(visible=True, alpha=0.3)
        each.margins(x=0.01)
        each.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(f"virtual time since the first job ({time.name})")


def _draw_use(
    axes: "Axes",
    run: Run,
    figures: Figures,
    *,
    styles: dict[str, _Style],
    span: tuple[float, float],
    time: _Time,
) -> None:
    """What the queues had of the resource that was used most, on top of each other."""
    timeline = run.books.timeline
    by_use = sorted(figures.utilisation.items(), key=lambda item: (-item[1].mean, item[0]))
    if not by_use:
        return
    resource, use = by_use[0]
    scale, unit = _scale(resource, timeline.capacity[resource].peak())
    lines = {name: timeline.queues[name].allocated.get(resource, Steps()) for name in styles}
    moments, rows = _sampled([*lines.values(), timeline.capacity[resource]], span)
    below = np.zeros(len(moments))
    ticks = (moments - span[0]) / time.seconds
    for (name, style), row in zip(styles.items(), rows, strict=False):
        above = below + row / scale
        axes.fill_between(
            *(ticks, below, above),
            step="post",
            facecolor=style.colour,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0.0,
            label=name,
        )
        below = above
    axes.step(
        ticks, rows[-1] / scale, where="post", color="black", linestyle="--", label="capacity"
    )
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"{resource} in use ({unit})")
    axes.set_title(
        f"{resource} by queue: {use.mean:.0%} of the capacity on average, {use.peak:.0%} at most",
        fontsize=11,
        loc="left",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="queue", frameon=False)


def _draw_waits(
    axes: "Axes", run: Run, styles: dict[str, _Style], begin: float, time: _Time
) -> None:
    """A mark for every job: when it came, and how long it waited."""
    jobs = run.books.jobs.values()
    waits = [job.wait_s for job in jobs if job.wait_s is not None]
    unit = _unit(max(waits, default=0.0))
    for name, style in styles.items():
        mine = [job for job in jobs if job.queue == name and job.wait_s is not None]
        (marks,) = axes.plot(
            [(job.submitted_s - begin) / time.seconds for job in mine],
            [(job.wait_s or 0.0) / unit.seconds for job in mine],
            linestyle="none",
            marker=style.marker,
            markersize=4,
            alpha=0.7,
            color=style.colour,
            clip_on=False,
            label=name,
        )
        # What is not clipped counts for the layout, and no marks at all as if they lay far away.
        marks.set_in_layout(False)
    never = sum(job.wait_s is None for job in jobs)
    note = f"; {never} never started" if never else ""
    axes.set_ylim(bottom=0, top=None if any(waits) else 1)
    if not waits:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no job started", transform=axes.transAxes, ha="center", va="center")
    axes.set_ylabel(f"wait ({unit.name})")
    axes.set_title(f"wait of each job, by the time it came{note}", fontsize=11, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="queue", frameon=False)


def _draw_jobs(
    axes: "Axes", run: Run, styles: dict[str, _Style], span: tuple[float, float], time: _Time
) -> None:
    timeline = run.books.timeline
    for name, style in styles.items():
        line = timeline.queues[name]
        moments, (working, waiting) = _sampled([line.working, line.waiting], span)
        ticks = (moments - span[0]) / time.seconds
        axes.step(ticks, working, where="post", color=style.colour, linewidth=1.5)
        axes.step(ticks, waiting, where="post", color=style.colour, linewidth=1.3, linestyle=":")
    axes.plot([], [], color="0.3", linewidth=1.5, label="running")
    axes.plot([], [], color="0.3", linewidth=1.3, linestyle=":", label="waiting")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("jobs")
    axes.set_title("jobs that run and wait, by queue", fontsize=11, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _sampled(many: list[Steps], span: tuple[float, float]) -> tuple[Floats, list[Floats]]:
    """Every step, or means if there are more than can be seen; the last value lasts to the end."""
    moments = np.append(grid(many, *span), span[1])
    if len(moments) <= _MOST_STEPS:
        return moments, [one.at(moments) for one in many]
    borders = np.linspace(*span, _MOST_STEPS + 1)
    means = [one.means(borders) for one in many]
    return borders, [np.append(row, row[-1]) for row in means]


def _unit(longest_s: float) -> _Time:
    for name, unit in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if longest_s >= 3 * unit:
            return _Time(name, unit)
    return _Time("seconds", 1.0)


def _scale(resource: str, most: float) -> tuple[float, str]:
    """How many base units make one of the axis, and what that is called."""
    if resource == "memory" or resource.endswith("storage"):
        power, name = (40, "TiB") if most >= 10 * (1 << 40) else (30, "GiB")
        return float(1 << power), name
    one: Any = from_base_units(resource, 1)
    return 1e9 / one.nano, "cores" if resource == "cpu" else "pieces"
