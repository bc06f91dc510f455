"""Pictures of a run: in every format, the same each time, and a clear word where none can be."""

import importlib.util
import re
from pathlib import Path

import pytest

from stromboli.scheduling.conf_file import read_conf
from stromboli.simulating.cluster import Cluster
from stromboli.simulating.figures import figures_of
from stromboli.simulating.manifests import Source
from stromboli.simulating.plotting import CannotPlot, check_format, picture
from stromboli.simulating.running import Run, run_trace
from stromboli.simulating.trace_file import read_traces

TRACE = """
nodes: [{name: n, cpu: 4}]
queues: [{name: blue}, {name: orange}]
jobs:
  - {name: b, queue: blue, count: 4, every: 20, duration: 60, replicas: 2, requests: {cpu: 1}}
  - {name: o, queue: orange, count: 4, every: 25, duration: 60, requests: {cpu: 2}}
  - {name: never, queue: orange, duration: 1, requests: {cpu: 9}}
"""


HOPELESS = """
nodes: [{name: n, cpu: 4}]
jobs: [{name: never, count: 5, duration: 1, requests: {cpu: 9}}]
"""


EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"
RIVALS = (EXAMPLES / "gang-deadlock.yaml").read_text()
WITHOUT_GANG = (EXAMPLES / "without-gang.conf").read_text()
DEAD = " \N{EN DASH} deadlock: 5 jobs hold 12 pods on nodes"


def run_of(text: str, conf: str = "") -> Run:
    cluster = Cluster(read_conf(conf) if conf else None, runs_for=lambda _: None)
    trace = read_traces([Source("trace.yaml", text)], cluster.objects.values())
    return run_trace(trace, cluster)


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of(TRACE)


@pytest.mark.parametrize(
    ("name", "begins"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_the_ending_says_the_format_and_the_same_run_gives_the_same_bytes(
    run: Run, name: str, begins: bytes
):
    first, second = (picture(run, figures_of(run), file_name=name, title="t") for _ in range(2))

    assert first.startswith(begins)
    assert first == second


def test_it_names_the_queues_the_axes_and_who_never_started(run: Run):
    # As text and not as outlines, so that the words can be found.
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        drawn = picture(run, figures_of(run), file_name="a.svg", title="my trace").decode()

    for words in (
        "my trace",
        "blue",
        "orange",
        "capacity",
        "cpu in use (cores)",
        "wait (seconds)",
        "1 never started",
        "virtual time since the first job (minutes)",
    ):
        assert words in drawn


@pytest.mark.parametrize(("conf", "title"), [(WITHOUT_GANG, DEAD), ("", "")])
def test_a_deadlock_stands_in_the_title(conf: str, title: str):
    import matplotlib as mpl

    run = run_of(RIVALS, conf)
    with mpl.rc_context({"svg.fonttype": "none"}):
        drawn = picture(run, figures_of(run), file_name="a.svg", title="rivals").decode()

    assert f">rivals{title}<" in drawn


@pytest.mark.parametrize("text", [TRACE, HOPELESS])
def test_the_panels_fill_the_picture_even_when_no_job_started(text: str):
    run = run_of(text)

    drawn = picture(run, figures_of(run), file_name="a.svg", title="t").decode()

    whole = float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', drawn)[0])
    corners = re.findall(r'<g id="axes_\d">.*?<path d="(.*?)z', drawn, re.DOTALL)
    ends = [[float(y) for y in re.findall(r"[ML] [\d.]+ ([\d.]+)", path)] for path in corners]
    heights = [(max(each) - min(each)) / whole for each in ends]
    assert len(heights) == 3
    assert sum(heights) > 0.75
    assert heights[0] > heights[1] > 0.2


def test_another_ending_is_refused_before_anything_runs():
    with pytest.raises(CannotPlot, match=r"expected one of \.png, \.svg, \.pdf"):
        check_format("picture.gif")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def without(name: str) -> object:
        return None if name == "matplotlib" else object()

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(CannotPlot, match=r"pip install 'stromboli-simulating\[plot\]'"):
        check_format("picture.png")
