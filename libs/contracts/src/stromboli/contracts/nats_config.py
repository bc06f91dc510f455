"""The NATS server's users and permissions, written from the tables in `permissions`.

The text is a nats-server configuration; passwords are given by the caller and never kept.
"""

from collections.abc import Mapping

import msgspec

from stromboli.contracts.permissions import BUS

MAX_PAYLOAD = 1024 * 1024
"""Bytes in one message: NATS' own default; `BINDS_PER_PART` keeps far below it."""


def users_block(passwords: Mapping[str, str]) -> str:
    """The `authorization` block: one user per service, named like the service."""
    unknown = sorted(set(passwords) - set(BUS))
    if unknown:
        raise ValueError(f"no such service: {', '.join(unknown)} (known: {', '.join(BUS)})")
    users = "\n".join(_user(name, password) for name, password in sorted(passwords.items()))
    return f"authorization {{\n  users = [\n{users}\n  ]\n}}\n"


def _user(name: str, password: str) -> str:
    rights = BUS[name]
    return (
        f"    {{ user: {_quoted(name)}, password: {_quoted(password)}, permissions: {{\n"
        f"        publish: {{ allow: [{_listed(rights.publish)}] }}\n"
        f"        subscribe: {{ allow: [{_listed(rights.subscribe)}] }}\n"
        "    } }"
    )


def _listed(subjects: tuple[str, ...]) -> str:
    return ", ".join(_quoted(subject) for subject in dict.fromkeys(subjects))


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
