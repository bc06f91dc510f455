"""The files that a NATS server and our services share: its configuration, a password each.

Passwords are made once; asking again keeps them, so that a server that starts anew still knows
the services that run. Whoever can read the folder can act as any service.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stromboli.contracts.nats_config import MAX_PAYLOAD, users_block
from stromboli.contracts.permissions import SERVICES

__all__ = ["new_passwords", "server_text", "write_bus_files", "write_private"]


def new_passwords() -> dict[str, str]:
    return {service: secrets.token_urlsafe(18) for service in SERVICES}


def server_text(*, listen: str, store: str, passwords: Mapping[str, str]) -> str:
    """A nats-server configuration: one user per service, with what it may say and hear."""
    return (
        f"listen: {listen}\n"
        f"max_payload: {MAX_PAYLOAD}\n"
        f"jetstream {{ store_dir: {msgspec.json.encode(store).decode()} }}\n"
        + users_block(passwords)
    )


def write_bus_files(folder: Path, *, listen: str, store: str) -> list[Path]:
    """`nats-server.conf` and `passwords/<service>` in the folder; returns what was written."""
    passwords = new_passwords()
    written: list[Path] = []
    (folder / "passwords").mkdir(parents=True, exist_ok=True)
    for service in passwords:
        path = folder / "passwords" / service
        if path.exists():
            passwords[service] = path.read_text().strip()
        else:
            write_private(path, passwords[service].encode())
            written.append(path)
    configuration = folder / "nats-server.conf"
    text = server_text(listen=listen, store=store, passwords=passwords)
    write_private(configuration, text.encode())
    return [*written, configuration]


def write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600, exist_ok=True)
    path.write_bytes(content)
