"""The folder that holds everything of one Stromboli: settings, secrets, data, logs.

Ports and passwords are chosen once and kept there, so that a second start is the same
installation. Whoever can read the folder can act as any service: it is readable by its
owner only.

One launcher at a time holds the folder, by a lock that the kernel takes back when the launcher
ends, in whatever way. What it has started is noted beside it, for those who ask, and for whoever
has to end what a launcher left behind.
"""

import fcntl
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from stromboli.launcher.bus_files import (
    new_passwords,
    replace_private,
    server_text,
    write_api_users,
    write_private,
)
from stromboli.launcher.errors import AlreadyUp, FolderUnusable, NothingHere, PortTaken
from stromboli.launcher.options import Options
from stromboli.launcher.processes import Process, is_alive

_HOST = "127.0.0.1"
_LOOKED_AT_S: Final = 1.0
"""Who asks whether the folder is held has the lock for an instant: so long a launcher tries."""

_LISTENING = ("nats", "api", "gateway", "controllers", "scheduler", "admission", "webhooks")
"""Who needs a port. Admission has two: `admission` is its health page, `webhooks` its HTTPS."""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen for this folder, once and for all."""

    ports: dict[str, int]
    passwords: dict[str, str]

    @property
    def nats_port(self) -> int:
        return self.ports["nats"]


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What a launcher has started here; kept in a file until it has ended."""

    launcher: Process
    processes: dict[str, Process]
    """By name, in the order in which they were started."""
    options: Options

    @property
    def left(self) -> dict[str, Process]:
        """Those that still run."""
        return {name: one for name, one in self.processes.items() if is_alive(one)}


@dataclass(frozen=True, slots=True)
class Folder:
    """Where things are."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def nats_config(self) -> Path:
        return self.root / "nats-server.conf"

    @property
    def api_data(self) -> Path:
        return self.root / "api"

    @property
    def api_users(self) -> Path:
        """Tokens of our services at the embedded API server."""
        return self.root / "api-users.csv"

    @property
    def kubeconfigs(self) -> Path:
        """One for each of these; `kubeconfig` is for people."""
        return self.root / "kubeconfigs"

    @property
    def certificates(self) -> Path:
        """What the gateway makes and admission serves with."""
        return self.root / "certificates"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def password_file(self, service: str) -> Path:
        return self.root / "passwords" / service

    @property
    def installation(self) -> Installation:
        """What was chosen here; raises NothingHere if nothing was."""
        chosen = self.root / "installation.json"
        try:
            return msgspec.json.decode(chosen.read_bytes(), type=Installation)
        except FileNotFoundError:
            raise NothingHere(str(self.root)) from None
        except OSError as problem:
            raise FolderUnusable(str(self.root), problem.strerror or str(problem)) from problem
        except msgspec.MsgspecError as problem:
            raise FolderUnusable(
                str(self.root), f"installation.json says nothing that makes sense ({problem})"
            ) from problem

    def noted(self) -> Running | None:
        """What the last launcher has noted and not taken back: it runs, or was killed."""
        try:
            return msgspec.json.decode((self.root / "running.json").read_bytes(), type=Running)
        except (OSError, msgspec.MsgspecError):
            return None

    def left_behind(self) -> dict[str, Process]:
        """What still runs of what was noted; for whoever knows that its launcher does not."""
        noted = self.noted()
        return {} if noted is None else noted.left

    def note(self, running: Running | None) -> None:
        path = self.root / "running.json"
        if running is None:
            path.unlink(missing_ok=True)
        else:
            replace_private(path, msgspec.json.encode(running))

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep other launchers out while the block runs; AlreadyUp if there is one.

        Children don't get the descriptor, so nobody else keeps the lock when this process ends.
        """
        self._make()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            give_up = time.monotonic() + _LOOKED_AT_S
            while not _locked(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > give_up:
                    raise AlreadyUp(str(self.root))
                time.sleep(0.02)
            yield
        finally:
            os.close(descriptor)

    @property
    def is_held(self) -> bool:
        """Whether a launcher runs here, by the kernel's word."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    @property
    def _lock(self) -> Path:
        return self.root / "lock"

    def _make(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            (self.root / "logs").mkdir(exist_ok=True)
            (self.root / "passwords").mkdir(exist_ok=True)
        except OSError as problem:
            why = "it is a file" if isinstance(problem, FileExistsError) else problem.strerror
            raise FolderUnusable(str(self.root), why or str(problem)) from problem

    def open(self) -> Installation:
        """The installation of this folder; a new folder gets free ports and new passwords.

        For whoever holds the folder.
        """
        chosen = self.root / "installation.json"
        if chosen.exists():
            installation = self.installation
            self._check_ports(installation)
        else:
            installation = Installation(ports={}, passwords=new_passwords())
        # Also those that a folder of an older version does not have yet.
        missing = [name for name in _LISTENING if name not in installation.ports]
        if missing:
            found = dict(zip(missing, _free_ports(len(missing)), strict=True))
            installation = msgspec.structs.replace(
                installation, ports={**installation.ports, **found}
            )
            replace_private(chosen, msgspec.json.format(msgspec.json.encode(installation)))
        for service, password in installation.passwords.items():
            write_private(self.password_file(service), password.encode())
        write_api_users(self.api_users)
        text = server_text(
            listen=f"{_HOST}:{installation.nats_port}",
            store=str(self.root / "nats"),
            passwords=installation.passwords,
        )
        write_private(self.nats_config, text.encode())
        return installation

    def _check_ports(self, installation: Installation) -> None:
        for name, port in installation.ports.items():
            with socket.socket() as probe:
                # A port in TIME_WAIT after our own stop is not taken.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((_HOST, port))
                except OSError as taken:
                    raise PortTaken(name, port) from taken


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
