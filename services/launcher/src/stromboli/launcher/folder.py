"""The folder that holds everything of one Stromboli: settings, secrets, data, logs.

Ports and passwords are chosen once and kept there, so that a second start is the same
installation. Whoever can read the folder can act as any service: it is readable by its
owner only.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stromboli.launcher.bus_files import (
    new_passwords,
    server_text,
    write_api_users,
    write_private,
)
from stromboli.launcher.errors import AlreadyUp, NothingHere, PortTaken
from stromboli.launcher.options import Options

_HOST = "127.0.0.1"


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
    """Who runs here right now; kept in a file while they do."""

    launcher: int
    pids: dict[str, int]
    options: Options


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
        if not chosen.exists():
            raise NothingHere(str(self.root))
        return msgspec.json.decode(chosen.read_bytes(), type=Installation)

    def running(self) -> Running | None:
        """Who runs here, or None; a launcher that died leaves its file, and is found out."""
        try:
            found = msgspec.json.decode((self.root / "running.json").read_bytes(), type=Running)
        except (OSError, msgspec.MsgspecError):
            return None
        return found if is_alive(found.launcher) else None

    def note(self, running: Running | None) -> None:
        path = self.root / "running.json"
        if running is None:
            path.unlink(missing_ok=True)
        else:
            write_private(path, msgspec.json.encode(running))

    def open(self) -> Installation:
        """The installation of this folder; a new folder gets free ports and new passwords."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
        (self.root / "logs").mkdir(exist_ok=True)
        (self.root / "passwords").mkdir(exist_ok=True)
        if (running := self.running()) is not None:
            raise AlreadyUp(str(self.root), running.launcher)
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
            write_private(chosen, msgspec.json.format(msgspec.json.encode(installation)))
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


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
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
