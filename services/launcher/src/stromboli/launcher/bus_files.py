"""The files that servers and our services share: NATS' configuration, passwords, API tokens.

Passwords are made once; asking again keeps them, so that a server that starts anew still knows
the services that run. Whoever can read the folder can act as any service.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from stromboli.contracts.nats_config import MAX_PAYLOAD, users_block
from stromboli.contracts.permissions import SERVICES

__all__ = [
    "API_USERS",
    "new_passwords",
    "replace_private",
    "server_text",
    "write_api_users",
    "write_bus_files",
    "write_private",
]


API_USERS: Final = ("gateway", "admission")
"""Services that speak to the API server, each in its own name."""


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
    """`nats-server.conf`, `passwords/<service>`, `api-users.csv`; returns what was written."""
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
    users = folder / "api-users.csv"
    if write_api_users(users):
        written.append(users)
    configuration = folder / "nats-server.conf"
    text = server_text(listen=listen, store=store, passwords=passwords)
    write_private(configuration, text.encode())
    return [*written, configuration]


def write_api_users(path: Path) -> bool:
    """Tokens for the embedded API server, in kube's format; those that are there are kept."""
    if path.exists():
        return False
    lines = [f"{secrets.token_urlsafe(32)},{user},{user}\n" for user in API_USERS]
    write_private(path, "".join(lines).encode())
    return True


def write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600, exist_ok=True)
    try:
        path.write_bytes(content)
    except OSError as problem:  # a full disk does not say where it is
        raise OSError(problem.errno, problem.strerror, str(path)) from problem


def replace_private(path: Path, content: bytes) -> None:
    """In one step, for those who read it at any moment."""
    scratch = path.with_name(f"{path.name}.new")
    write_private(scratch, content)
    scratch.replace(path)
