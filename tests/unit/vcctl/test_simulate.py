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

from stromboli.testkit.scheduling_scenario import Scenario, files_of, read_scenarios
from stromboli.vcctl.outcome_tables import print_tables

FOLDER = Path(__file__).parents[2] / "conformance" / "scheduling"
CHOSEN = ("A2", "P3", "C2", "H3")
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


def printed(**parts: Any) -> str:
    nothing: dict[str, Any] = {
        "binds": {},
        "pipelined": {},
        "evictions": [],
        "podgroups": {},
        "queues": {},
        "explanations": {},
    }
    text = StringIO()
    print_tables({**nothing, **parts}, Console(file=text, width=100))
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
