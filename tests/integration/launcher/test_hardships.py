"""`stromboli` where things are not as they should be: it says so in sentences."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stromboli.launcher.folder import Folder
from stromboli.testkit.processes import ChildProcess

pytestmark = [pytest.mark.nats, pytest.mark.timeout(240)]

STROMBOLI = (sys.executable, "-m", "stromboli.launcher")
ODD = "it's [bold]odd[/bold] $(id) [/nothing]"
"""A name with everything that rich and a shell would take for their own."""


def stromboli(
    *arguments: str | Path, output: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*STROMBOLI, *map(str, arguments)],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
        check=False,
    )


def by_a_shell(script: str) -> str:
    """What it prints; errors of it and of what it runs are errors of the test."""
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


def up(folder: Path, log: Path, *flags: str | Path, **environment: str) -> ChildProcess:
    argv = [*STROMBOLI, "up", "--dir", folder, *flags]
    return ChildProcess(argv, name="up", log=log, env={**os.environ, **environment})


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    folder = tmp_path / ODD
    yield folder
    stromboli("down", "--dir", folder)


async def test_a_folder_of_any_name_behind_a_proxy_is_shown_as_it_is(folder: Path, tmp_path: Path):
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    proxied = dict.fromkeys(names, "http://127.0.0.1:1")
    running = up(folder, tmp_path / "up.log", **proxied, NO_PROXY="", no_proxy="")
    await running.until_line("Stromboli is up", 100)
    await running.until_line("Ctrl-C", 10)
    said = running.log_text()
    assert f"{folder}/logs" in said

    export = re.search(r"export KUBECONFIG=.*", said)
    assert export is not None
    assert by_a_shell(f'{export[0]}; printf %s "$KUBECONFIG"') == str(folder / "kubeconfig")

    second = stromboli("up", "--dir", folder)
    assert f"Stromboli runs on {folder} already" in second.stderr
    assert "stromboli status --dir 'it'" not in second.stderr
    assert await running.terminate(60) == 0
    assert f"not running on {folder}\n" in stromboli("status", "--dir", folder).stdout


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on which everything runs, for tests that leave it so."""
    folder = tmp_path_factory.mktemp("stack") / "stromboli"
    running = up(folder, folder.with_suffix(".log"))
    asyncio.run(running.until_line("Ctrl-C", 100))
    yield folder
    asyncio.run(running.terminate(60))


@pytest.mark.parametrize("name", ["nats", "api", "kubelets", "gateway"])
def test_status_names_one_that_stands_still(stack: Path, name: str):
    running = Folder(stack).noted()
    assert running is not None
    pid = running.processes[name].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        shown = stromboli("status", "--dir", stack)
    finally:
        os.kill(pid, signal.SIGCONT)

    assert shown.returncode == 1
    assert not shown.stderr
    assert f"{name:<12} {pid:>8}  paused: `kill -CONT {pid}` lets it go on" in shown.stdout


@pytest.mark.parametrize("command", ["status", "logs", "up"])
def test_output_that_can_not_be_written_is_an_error_in_one_line(
    stack: Path, tmp_path: Path, command: str
):
    folder = stack if command != "up" else tmp_path / "other"
    with Path("/dev/full").open("w") as full:
        done = stromboli(command, "--dir", folder, output=full.fileno())

    assert done.returncode == 1
    assert done.stderr == "error: can't write the output: No space left on device\n"
    if command == "up":
        assert Folder(folder).noted() is None
        assert not Folder(folder).is_held


def test_help_that_can_not_be_written_is_an_error_in_one_line():
    with Path("/dev/full").open("w") as full:
        done = stromboli("--help", output=full.fileno())

    assert done.returncode == 1
    assert done.stderr == "error: can't write the output: No space left on device\n"


def test_who_reads_only_the_beginning_is_no_error(stack: Path):
    logs = f"{sys.executable} -m stromboli.launcher logs --dir {stack} --lines 100000"

    assert by_a_shell(f"{logs} | head -1").count("\n") == 1


@pytest.mark.parametrize("command", ["up", "status", "down", "logs"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file", "it is a file"),
        ("file/below", "Not a directory"),
        ("a:b", "stands between paths in KUBECONFIG"),
        (os.fsdecode(b"\xff"), "its name is not UTF-8"),
        ("/proc/nowhere", "No such file or directory"),
    ],
)
def test_no_command_ends_in_a_traceback_on_a_folder_that_can_not_be(
    tmp_path: Path, command: str, name: str, why: str
):
    (tmp_path / "file").write_text("")
    done = stromboli(command, "--dir", tmp_path / name)

    assert "Traceback" not in done.stderr + (done.stdout or "")
    if command == "up":
        assert done.returncode == 1
        assert why in done.stderr
        assert done.stderr.count("\n") == 1


async def test_the_process_that_the_others_wait_for_is_named_with_what_its_log_says(
    tmp_path: Path,
):
    """The gateway was ready for an instant, so it is admission that is waited for."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""
    )
    running = up(
        tmp_path / "stromboli",
        tmp_path / "up.log",
        *("--kubeconfig", kubeconfig, "--admission"),
    )
    await running.until_line("waiting for gateway: kinds not listed yet: namespace", 40)
    await running.until_line("its log says: .*Cannot connect to host 127.0.0.1:1", 10)
    running.send(signal.SIGTERM)

    assert await running.wait(60) == 0


async def test_settings_that_can_not_be_used_are_told_in_the_words_of_who_was_given_them(
    tmp_path: Path,
):
    (tmp_path / "nodes.yaml").write_text("[[[")
    running = up(tmp_path / "stromboli", tmp_path / "up.log", "--nodes", tmp_path / "nodes.yaml")

    assert await running.wait(100) == 1
    assert "error: kubelets ended with code 1" in running.log_text()
    assert "setting '--nodes' cannot be used" in running.log_text()
    assert "Traceback" not in running.log_text()
