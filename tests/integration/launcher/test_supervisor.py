"""Processes are started in order, and who holds up the others is named."""

import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from stromboli.launcher import supervisor as supervising
from stromboli.launcher.errors import DidNotStart
from stromboli.launcher.folder import Folder
from stromboli.launcher.plan import Planned
from stromboli.launcher.processes import is_alive
from stromboli.launcher.supervisor import Supervisor
from stromboli.testkit.waiting import eventually

SERVING = """
import http.server, sys

class Page(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Page.asked += 1
        is_ready = Page.asked <= int(sys.argv[2])
        self.send_response(200 if is_ready else 503)
        self.end_headers()
        self.wfile.write(b"ok" if is_ready else b"[-] facts: none yet\\n")
        print('{"level":"warning","event":"cluster.away","problem":"nobody there"}', flush=True)
    def log_message(self, *_):
        pass

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""
"""Says that it is ready so many times, and then no more."""
ALWAYS, ONCE, NEVER = 1_000_000, 1, 0


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "stromboli")
    (folder.root / "logs").mkdir(parents=True)
    return folder


@pytest.fixture
async def supervisor(folder: Folder) -> AsyncIterator[Supervisor]:
    told: list[str] = []
    made = Supervisor(folder, told.append)
    yield made
    await made.stop()


@pytest.fixture
def news(supervisor: Supervisor) -> list[str]:
    told: list[str] = []
    supervisor.tell = told.append
    return told


@pytest.fixture
def service(tmp_path: Path) -> Callable[..., Planned]:
    script = tmp_path / "service.py"
    script.write_text(SERVING)

    def planned(name: str, ready: int, *, beside: bool = False) -> Planned:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        argv = (sys.executable, "-I", str(script), str(port), str(ready))
        return Planned(name, argv, ready_url=f"http://127.0.0.1:{port}/", beside=beside)

    return planned


async def test_the_first_that_is_not_ready_is_blamed_whoever_was_waited_for(
    supervisor: Supervisor,
    news: list[str],
    service: Callable[..., Planned],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(supervising, "_START_S", 6.0)
    monkeypatch.setattr(supervising, "_SLOW_S", 0.1)
    planned = [
        service("nats", ALWAYS),
        service("gateway", ONCE),
        service("admission", NEVER, beside=True),
    ]
    with pytest.raises(DidNotStart) as caught:
        await supervisor.start(planned)

    assert caught.value.name == "gateway"
    assert "gateway was not ready within 6 s: facts: none yet" in str(caught.value)
    assert str(caught.value).endswith("warning cluster.away problem: nobody there")
    assert "waiting for gateway: facts: none yet" in news


async def test_one_that_ends_is_named_with_the_last_it_said_in_this_run(
    supervisor: Supervisor, folder: Folder
):
    folder.log("nats").write_text("of an earlier run\n")
    argv = (sys.executable, "-c", "import sys; sys.exit('no [room] left')")
    with pytest.raises(DidNotStart) as caught:
        await supervisor.start([Planned("nats", argv, ready_port=1)])

    assert str(caught.value).endswith("the last it says is:\nno [room] left")
    assert "nats ended with code 1" in str(caught.value)
    assert "earlier" not in str(caught.value)


async def test_a_command_that_is_not_there_is_told_as_such(supervisor: Supervisor):
    with pytest.raises(DidNotStart, match=r"can't start '/no/such/file': No such file"):
        await supervisor.start([Planned("nats", ("/no/such/file",), ready_port=1)])


async def test_one_that_writes_when_it_is_ready_is_waited_for(
    supervisor: Supervisor, folder: Folder
):
    folder.log("kubelets").write_text("3 nodes, of an earlier run\n")
    argv = (sys.executable, "-c", "import sys; sys.exit('not today')")
    with pytest.raises(DidNotStart, match="not today"):
        await supervisor.start([Planned("kubelets", argv, ready_line="nodes,")])

    script = "import time; print('3 nodes, ready', flush=True); time.sleep(600)"
    argv = (sys.executable, "-c", script)
    await supervisor.start([Planned("kubelets", argv, ready_line="nodes,")])
    assert is_alive(supervisor.processes["kubelets"])


async def test_it_goes_on_trying_where_nothing_can_be_started_for_a_while(
    supervisor: Supervisor,
    news: list[str],
    folder: Folder,
    service: Callable[..., Planned],
):
    """Somebody removed the folder of logs, or the disk is full."""
    await supervisor.start([service("gateway", ALWAYS)])
    first = supervisor.processes["gateway"]
    shutil.rmtree(folder.root)
    os.kill(first.pid, signal.SIGKILL)
    await eventually(
        lambda: any("gateway could not be started" in line for line in news), deadline_s=20
    )
    (folder.root / "logs").mkdir(parents=True)

    await eventually(
        lambda: is_alive(supervisor.processes["gateway"]),
        deadline_s=20,
        describe="the gateway to be started again",
    )
    assert supervisor.processes["gateway"] != first
