"""`vcctl simulate` as a person meets it: a process, its output and its exit status."""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from stromboli.simulating.particulars import Evicted, Particulars
from stromboli.testkit.scheduling_scenario import Scenario, files_of, read_scenarios
from stromboli.vcctl.outcome_tables import print_tables

FOLDER = Path(__file__).parents[2] / "conformance" / "scheduling"
CHOSEN = (
    *("A2", "P3", "C2", "H3"),
    *("a-gang-is-kept-in-every-tier", "equal-pods-of-a-job-do-not-take-each-others-place"),
    *("critical-pods-are-kept-in-every-tier", "equal-jobs-do-not-take-each-others-extras"),
)
SCENARIOS = [one for one in read_scenarios(FOLDER) if one["id"] in CHOSEN]
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 4}}\n"


def vcctl(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stromboli.vcctl", "simulate", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_there_is_a_scenario_for_each_that_is_chosen():
    assert {one["id"] for one in SCENARIOS} == set(CHOSEN)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one["id"])
def test_a_process_prints_what_comes_of_volcanos_cases(scenario: Scenario, tmp_path: Path):
    manifests, conf = files_of(scenario)
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "all.yaml").write_text(manifests)
    (tmp_path / "scheduler.conf").write_text(conf)

    ended = vcctl(
        *("-f", str(tmp_path / "objects"), "--conf", str(tmp_path / "scheduler.conf")),
        *("--cycles", "1", "-o", "json"),
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    shown = {
        "binds": {name.removeprefix("test/"): node for name, node in found["binds"].items()},
        "evicts": sorted(name.removeprefix("test/") for name in found["evictions"]),
        "pipelined": {name.removeprefix("test/"): on for name, on in found["pipelined"].items()},
    }
    expect = {key: value for key, value in scenario["expect"].items() if key in shown}
    assert expect
    assert {key: shown[key] for key in expect} == expect


def test_objects_come_from_standard_input_and_leave_as_yaml():
    ended = vcctl("-f", "-", "-o", "yaml", stdin=NODE)

    assert ended.returncode == 0
    assert yaml.safe_load(ended.stdout)["queues"]["default"]["state"] == "Open"


def test_tables_say_so_when_they_are_empty():
    ended = vcctl("-f", "-", stdin=NODE)

    assert ended.stdout.startswith("0 pods placed; ")
    assert "Evicted: no pod\n" in ended.stdout
    assert "Why jobs wait: no job waits\n" in ended.stdout
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (("-f", "nowhere.yaml"), "", "nowhere.yaml: cannot be read: No such file"),
        (("-f", "-"), "a: b: c\n", "standard input:1: this is not YAML"),
        (("-f", "-", "--cycles", "none"), NODE, "expected 1 or more"),
        (("-f", "-", "--cycles", "1", "--until-idle"), NODE, "not allowed with"),
        ((), "", "name a file with objects (-f)"),
    ],
)
def test_bad_input_ends_with_one_and_a_sentence_on_standard_error(
    arguments: tuple[str, ...], stdin: str, words: str
):
    ended = vcctl(*arguments, stdin=stdin)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Failed to vcctl simulate: ")
    assert words in ended.stderr


def test_an_unknown_kind_is_a_warning_and_no_failure():
    ended = vcctl("-f", "-", "-o", "json", stdin=NODE.replace("Node", "Toaster"))

    assert ended.returncode == 0
    assert ended.stderr.startswith("warning: standard input:1: document 1: v1 Toaster")
    assert json.loads(ended.stdout)["binds"] == {}


def test_a_job_that_is_refused_for_a_misspelt_field_is_told_of_the_field_first():
    job = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  minAvailable: 3
  tasks: [{name: t, replcas: 3, template: {spec: {containers: [{name: c, image: x}]}}}]
"""

    ended = vcctl("-f", "-", stdin=job)

    warning, failure = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (1, "")
    assert warning.startswith("warning: standard input:1: document 1: Job j: spec.tasks[0].replcas")
    assert failure.startswith("Failed to vcctl simulate: standard input:1: document 1: Job")


def test_other_commands_do_not_wait_for_the_scheduler_to_load():
    code = "import sys, stromboli.vcctl.__main__; sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_that_speaks_to_an_api_server_is_loaded_for_a_simulation():
    code = (
        "import sys, stromboli.vcctl.__main__, stromboli.vcctl.simulate; "
        "sys.exit('kubernetes_asyncio' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def printed(
    waiting: int = 0, evicted: dict[str, Evicted] | None = None, *, width: int = 100, **parts: Any
) -> str:
    nothing: dict[str, Any] = {
        "binds": {},
        "pipelined": {},
        "evictions": [],
        "podgroups": {},
        "queues": {},
        "explanations": {},
    }
    text = StringIO()
    particulars = Particulars(waiting, evicted or {})
    print_tables({**nothing, **parts}, particulars, Console(file=text, width=width))
    return text.getvalue()


def test_pods_that_differ_only_in_their_number_share_a_line_when_there_are_many():
    binds = {f"default/gang-worker-{number}": f"n{number % 10}" for number in range(100)}

    text = printed(binds=binds)

    assert "default/gang-worker-* (100 pods)  10 on n0, 10 on n1, 10 on n2, 10 on n3, and 6" in text


def test_what_is_too_long_is_counted():
    groups = {f"default/g{n:02}": {"phase": "Pending", "reason": "x"} for n in range(40)}

    text = printed(podgroups=groups)

    assert "default/g23" in text
    assert "default/g24" not in text
    assert "… and 16 lines more: -o json shows all" in text


def test_why_a_job_waits_is_told_in_lines_of_its_own():
    why = {
        "code": "ClusterFull",
        "sentence": "it needs [3] of everything",
        "unblock": "running pods end",
        "ahead": ["default/a", "default/b"],
        "since": "2030-01-01T12:00:00Z",
        "lastEvaluated": "2030-01-01T12:05:00Z",
    }

    text = printed(explanations={"default/job": why})

    assert "default/job: ClusterFull\n    it needs [3] of everything\n" in text
    assert "    goes on when running pods end\n    ahead of it: default/a, default/b\n" in text


def test_the_first_line_counts_all_pods_that_wait():
    assert printed(3).startswith("0 pods placed; 3 pods waiting; 0 pods evicted")
    assert "; 3 pods waiting (1 of them for pods that are ending);" in printed(
        3, pipelined={"default/a": "n1"}
    )
    assert "; 1 pod waiting (all of them for pods that are ending);" in printed(
        1, pipelined={"default/a": "n1"}
    )


def test_of_the_evicted_is_told_where_they_were_and_for_whom_they_went():
    one = Evicted("n1", "preempt", "default/urgent")

    assert "default/a  n1    preempt  default/urgent\n" in printed(evicted={"default/a": one})
    assert "default/a  -     -   -\n" in printed(evicted={"default/a": Evicted()})


def test_many_evicted_pods_share_a_line():
    evicted = {
        f"default/low-{n}": Evicted(f"n{n % 2}", "reclaim", f"default/j{n % 5}") for n in range(40)
    }

    (line,) = (line for line in printed(evicted=evicted).splitlines() if "low-*" in line)

    assert line.split("  ") == [
        *("default/low-* (40 pods)", "20 on n0, 20 on n1", "reclaim"),
        "default/j0, default/j1, default/j2 and 2 more",
    ]


def test_a_podgroup_is_shown_with_the_code_of_its_explanation():
    why = {"code": "Misconfigured", "sentence": "", "unblock": "", "ahead": []}
    why |= {"since": "", "lastEvaluated": ""}
    group = {"phase": "Pending", "reason": "NotEnoughResources"}

    text = printed(podgroups={"default/a": group}, explanations={"default/a": why})

    assert "default/a  Pending  Misconfigured\n" in text
    assert "NotEnoughResources" not in text


def test_amounts_are_rounded_for_people_and_one_pod_is_no_pods():
    amounts = {"cpu": "500m", "memory": "1G", "pods": "1"}
    queue = {"state": "Open", "weight": 1, "allocated": amounts, "capability": {"cpu": "much"}}

    text = printed(queues={"default": queue})

    assert "500m cpu, 953.67Mi memory, 1 pod  -         much cpu\n" in text
