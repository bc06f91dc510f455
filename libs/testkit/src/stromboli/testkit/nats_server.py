"""A real nats-server for tests: on a port it chose itself, with data that can be lost.

The server's faults are the point: it can be killed, frozen, restarted on the same port
with or without its data, as in production. The port is chosen by the server (-1) and
learnt from the ports file, so parallel test runs never meet; after the first start it is
kept, because clients reconnect to where the server was.
"""

import re
import shutil
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from stromboli.runtime.embedded_nats import find_nats_server
from stromboli.testkit.processes import ChildProcess, ProcessFailed

__all__ = ["NatsServer"]

_START_DEADLINE_S: Final = 10.0


_CONFIG: Final = """\
host: 127.0.0.1
port: {port}
http: "127.0.0.1:{monitor_port}"
ports_file_dir: "{run_dir}"
"""
_JETSTREAM: Final = """\
jetstream {{
  store_dir: "{store_dir}"
  {extra}
}}
"""


class _Ports(msgspec.Struct):
    nats: list[str]
    monitoring: list[str] = []
    cluster: list[str] = []


class NatsServer:
    """One server and the folder it lives in; may be started and ended many times.

    `config` is appended to the configuration file (accounts, users, limits) at each start;
    `jetstream` goes inside its jetstream block (`sync_interval: always`), None for none.
    """

    def __init__(
        self,
        directory: Path,
        *,
        config: str = "",
        jetstream: str | None = "",
        name: str = "nats-server",
    ) -> None:
        self.name = name
        self.directory = directory
        self.store = directory / "jetstream"
        self.log = directory / f"{name}.log"
        self.config = config
        self._jetstream = jetstream
        self._port: int | None = None
        self._monitor_port: int | None = None
        self.route_port: int | None = None
        """Where the other members of its cluster reach it, once it was started."""
        self._paused = False
        self._child: ChildProcess | None = None

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError(f"{self.name} has no port yet: it was never started")
        return self._port

    @property
    def url(self) -> str:
        """Where clients connect; the same after every restart."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor_url(self) -> str:
        """The server's own HTTP pages: /varz, /jsz, /connz, /healthz."""
        if self._monitor_port is None:
            raise RuntimeError(f"{self.name} has no port yet: it was never started")
        return f"http://127.0.0.1:{self._monitor_port}"

    @property
    def pid(self) -> int:
        return self._running_child().pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def answering(self) -> bool:
        """Is it running, and not frozen?"""
        return self.running and not self._paused

    def log_tail(self) -> str:
        return "" if self._child is None else self._child.log_tail()

    async def start(self, deadline_s: float = _START_DEADLINE_S) -> None:
        """Start it and return when clients can connect and JetStream is recovered."""
        if self.running:
            raise RuntimeError(f"{self.name} is already running (pid {self.pid})")
        config_file = self._write_config()
        child = ChildProcess([find_nats_server(), "-c", config_file], name=self.name, log=self.log)
        self._child = child
        self._paused = False
        ports_file = self.directory / f"nats-server_{child.pid}.ports"
        try:
            # The server writes this file once it accepts connections.
            ports = await child.until(
                lambda: _read_ports(ports_file),
                deadline_s=deadline_s,
                what="was not ready for connections",
            )
        except BaseException:
            child.kill()
            raise
        self._port = _port_of(ports.nats[0])
        self._monitor_port = _port_of(ports.monitoring[0])
        if ports.cluster:
            self.route_port = _port_of(ports.cluster[0])

    async def stop(self, deadline_s: float = 10.0) -> None:
        """The clean way: SIGTERM, and wait until it has gone."""
        if self._child is not None and self._child.running:
            await self._child.terminate(deadline_s)

    def kill(self) -> None:
        """The hard way: kill -9, as a power switch does to a process."""
        if self._child is not None:
            self._child.kill()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._running_child().pause()
        self._paused = True

    def resume(self) -> None:
        self._running_child().resume()
        self._paused = False

    async def restart(self, *, hard: bool = False, deadline_s: float = _START_DEADLINE_S) -> None:
        """Down and up again with its data on the same port; `hard` means kill -9."""
        if hard:
            self.kill()
        else:
            await self.stop()
        await self.start(deadline_s)

    def wipe(self) -> None:
        """Delete all its data; only while it is down, as it would write it back."""
        if self.running:
            raise RuntimeError(f"{self.name} is running; stop or kill it before wiping its data")
        shutil.rmtree(self.store, ignore_errors=True)

    async def lose_all_data(self) -> None:
        """Killed, its disk emptied, and started again: a server that knows nothing."""
        self.kill()
        self.wipe()
        await self.start()

    def _write_config(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = _CONFIG.format(
            port=self._port or -1,
            monitor_port=self._monitor_port or -1,
            run_dir=self.directory,
        )
        if self._jetstream is not None:
            text += _JETSTREAM.format(store_dir=self.store, extra=self._jetstream)
        path = self.directory / f"{self.name}.conf"
        path.write_text(text + self.config)
        return path

    def _running_child(self) -> ChildProcess:
        if self._child is None or not self._child.running:
            raise ProcessFailed(self.name, what="is not running", log=self.log_tail())
        return self._child

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nothing of a test's server is needed any more; a paused one could not stop cleanly.
        self.kill()


def _read_ports(path: Path) -> _Ports | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Ports)
    except (FileNotFoundError, msgspec.DecodeError):
        return None  # not there yet, or half written


def _port_of(url: str) -> int:
    found = re.search(r":(\d+)$", url)
    if found is None:
        raise ValueError(f"no port at the end of {url!r} in the ports file")
    return int(found[1])
