"""Bearer tokens: who is let in without a certificate.

The administrator's token is made at the first start and kept; others come from a file in
kube's format, one `token,user,uid,"group1,group2"` per line.
"""

import csv
import os
import secrets
from pathlib import Path
from typing import Final

from stromboli.sandbox.errors import ConfigError
from stromboli.sandbox.requests import User

__all__ = ["admin_token", "token_users"]

ADMIN: Final = User(
    "stromboli-admin", "stromboli-admin", ("system:masters", "system:authenticated")
)


def admin_token(file: Path) -> str:
    """The kept token of the administrator, or a new one."""
    if file.exists():
        return file.read_text().strip()
    token = secrets.token_urlsafe(32)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(token)
    return token


def token_users(file: Path | None) -> dict[str, User]:
    users: dict[str, User] = {}
    if file is None:
        return users
    with file.open(newline="") as stream:
        for number, row in enumerate(csv.reader(stream, skipinitialspace=True), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0] or not row[1]:
                problem = f'line {number} is not token,user,uid[,"group1,group2"]'
                raise ConfigError("token_file", problem)
            groups = tuple(g.strip() for g in row[3].split(",") if g.strip()) if row[3:] else ()
            users[row[0]] = User(row[1], row[2], (*groups, "system:authenticated"))
    return users
