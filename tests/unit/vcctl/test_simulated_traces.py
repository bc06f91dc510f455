"""`vcctl simulate --trace`, as people type it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stromboli.vcctl.__main__ import main

TRACES = Path(__file__).parents[3] / "examples" / "traces"
DEADLOCK = str(TRACES / "gang-deadlock.yaml")
WITHOUT_GANG = str(TRACES / "without-gang.conf")


def printed(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *line])
    told = capsys.readouterr()
    assert ended.value.code == 0, told.err
    assert told.err == ""
    return told.out


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *line])
    told = capsys.readouterr()
    assert ended.value.code == 1
    assert told.out == ""
    return told.err


def test_the_command_shows_that_gangs_end_the_deadlock_of_the_example():
    """The installed command, as a process of its own."""
    command = [str(Path(sys.executable).with_name("vcctl")), "simulate", "--trace", DEADLOCK]
    with_gangs = subprocess.run(command, capture_output=True, text=True, check=True)
    without = subprocess.run(
        [*command, "--conf", WITHOUT_GANG], capture_output=True, text=True, check=True
    )

    assert "5 jobs on 3 nodes: 5 completed; 30m of virtual time" in with_gangs.stdout
    assert "Held by jobs below their minimum: 0 pod-seconds" in with_gangs.stdout
    assert "deadlock" not in with_gangs.stdout
    assert "0 completed, 5 not finished; nothing happens any more" in without.stdout
    assert "deadlock: 5 jobs hold 12 pods on nodes" in without.stdout
    assert "12 pods at the end" in without.stdout


def test_json_and_yaml_say_the_same(capsys: pytest.CaptureFixture[str]):
    as_json = json.loads(printed(capsys, "--trace", DEADLOCK, "-o", "json"))
    as_yaml = yaml.safe_load(printed(capsys, "--trace", DEADLOCK, "-o", "yaml"))

    assert as_json == as_yaml
    assert as_json["makespanSeconds"] == 1800
    assert as_json["jobs"]["completed"] == 5
    assert as_json["inVain"] == {"beforeStart": 0, "afterEviction": 0, "podsAtEnd": 0}


def test_the_picture_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    picture = tmp_path / "day.png"
    printed(capsys, "--trace", DEADLOCK, "--plot", str(picture))

    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nodes_from_manifests_and_jobs_from_a_table_make_one_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    nodes, jobs = tmp_path / "nodes.yaml", tmp_path / "jobs.csv"
    nodes.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
        "status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}\n"
    )
    jobs.write_text("at,duration,replicas,cpu\n0,60,2,1\n10,60,1,2\n")
    found = json.loads(printed(capsys, "-f", str(nodes), "--trace", str(jobs), "-o", "json"))

    assert found["makespanSeconds"] == 120
    assert found["waits"]["max"] == 50


def test_a_run_can_be_cut_off(capsys: pytest.CaptureFixture[str]):
    assert "cut off after 900 s" in printed(capsys, "--trace", DEADLOCK, "--until", "15m")


def test_bad_rows_are_told_all_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("at,duration\nsoon,1\n0,later\n")
    told = refused(capsys, "--trace", str(jobs))

    assert f"{jobs}:2: at: is 'soon', expected" in told
    assert f"{jobs}:3: duration: is 'later', expected" in told


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ([], "name a file with objects (-f) or a trace (--trace)"),
        (["-f", DEADLOCK, "--plot", "a.png"], "--plot goes with --trace"),
        (["-f", DEADLOCK, "--until", "5s"], "--until goes with --trace"),
        (["--trace", DEADLOCK, "--cycles", "3"], "--cycles does not go with --trace"),
        (["--trace", DEADLOCK, "--until", "soon"], "bad duration 'soon'"),
        (["--trace", DEADLOCK, "--plot", "a.gif"], "expected one of .png, .svg, .pdf"),
        (["--trace", DEADLOCK, "--plot", "no/such/folder/a.png"], "cannot be written"),
        (["--trace", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_what_can_not_be_done_is_said(
    capsys: pytest.CaptureFixture[str], line: list[str], sentence: str
):
    assert sentence in refused(capsys, *line)
