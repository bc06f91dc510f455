"""One launcher at a time holds a folder, and the kernel knows which."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stromboli.launcher.errors import AlreadyUp, FolderUnusable, NothingHere
from stromboli.launcher.folder import Folder, Running
from stromboli.launcher.options import Options
from stromboli.launcher.processes import Process, process_of
from stromboli.testkit.waiting import eventually

HOLDING = """
import subprocess, sys, time
from pathlib import Path
from stromboli.launcher.folder import Folder
with Folder(Path(sys.argv[1])).held():
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder() -> Iterator[Callable[[Path], "subprocess.Popen[str]"]]:
    """Starts a process that holds a folder and has a child."""
    started: list[subprocess.Popen[str]] = []
    children: list[int] = []

    def hold(folder: Path) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-c", HOLDING, str(folder)]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        output = started[-1].stdout
        assert output is not None
        children.append(int(output.readline()))
        return started[-1]

    yield hold
    for one in started:
        one.kill()
        one.communicate()
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def test_a_folder_is_held_by_one_launcher_at_a_time(tmp_path: Path):
    folder = Folder(tmp_path / "x y")
    assert not folder.is_held
    with folder.held():
        assert folder.is_held
        with pytest.raises(AlreadyUp, match=r"stromboli down --dir '.*x y'"), folder.held():
            pass
        assert folder.is_held

    assert not folder.is_held
    with folder.held():
        assert folder.is_held


async def test_a_launcher_that_is_killed_holds_nothing_though_its_children_live(
    tmp_path: Path, holder: Callable[[Path], "subprocess.Popen[str]"]
):
    launcher = holder(tmp_path)
    folder = Folder(tmp_path)
    assert folder.is_held
    launcher.kill()

    await eventually(lambda: not folder.is_held, describe="the kernel takes the lock back")
    with folder.held():
        assert folder.is_held


def test_what_was_noted_stays_until_it_is_taken_back(tmp_path: Path):
    folder = Folder(tmp_path)
    me = process_of(os.getpid())
    gone = Process(os.getpid(), "at another time")
    noted = Running(launcher=gone, processes={"a": gone, "b": me}, options=Options())
    folder.note(noted)

    assert folder.noted() == noted
    assert folder.left_behind() == {"b": me}
    assert (tmp_path / "running.json").stat().st_mode & 0o777 == 0o600
    folder.note(None)
    assert folder.noted() is None
    assert folder.left_behind() == {}


@pytest.mark.parametrize("content", [b"", b"{", b'{"launcher": 7, "pids": {"nats": 8}}'])
def test_a_note_that_makes_no_sense_is_none(tmp_path: Path, content: bytes):
    (tmp_path / "running.json").write_bytes(content)

    assert Folder(tmp_path).noted() is None
    assert Folder(tmp_path).left_behind() == {}


@pytest.mark.parametrize(
    ("place", "why"), [("file", "it is a file"), ("file/below", "Not a directory")]
)
def test_a_folder_that_can_not_be_made_is_named_with_the_reason(
    tmp_path: Path, place: str, why: str
):
    (tmp_path / "file").write_text("")
    folder = Folder(tmp_path / place)

    with pytest.raises(FolderUnusable, match=f"{place} can't be used: {why}"), folder.held():
        pass
    with pytest.raises(FolderUnusable, match="Not a directory"):
        _ = folder.installation
    assert not folder.is_held


def test_half_an_installation_is_told_from_none(tmp_path: Path):
    folder = Folder(tmp_path)
    with pytest.raises(NothingHere):
        _ = folder.installation
    (tmp_path / "installation.json").write_text('{"ports": {')

    with pytest.raises(FolderUnusable, match="nothing that makes sense"):
        _ = folder.installation
