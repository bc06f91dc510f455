"""Every request that would change something, one JSON line each, also the refused ones.

A line is written after the change is in the journal and before the client is answered. A process
that dies in between leaves a change without a line, never a line without its change. The file
is bounded: when full it becomes `.1` and a new one begins.
"""

import os
from pathlib import Path

import msgspec

from stromboli.sandbox.clock import Clock
from stromboli.sandbox.paths import Target
from stromboli.sandbox.requests import Answer, User

__all__ = ["AuditLine", "AuditLog"]


class AuditLine(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    time: str
    user: str
    verb: str
    user_agent: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    code: int = 0
    resource_version: str = ""
    node: str = ""
    reason: str = ""
    dry_run: bool = False


_MAX_AGENT = 256
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class AuditLog:
    def __init__(self, path: Path, clock: Clock, *, max_bytes: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._clock = clock
        self._max_bytes = max_bytes
        self._encoder = msgspec.json.Encoder()
        self._file = -1
        self._bytes = 0
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._bytes = self._path.stat().st_size

    def wants(self, method: str) -> bool:
        return method in _VERBS

    def write(
        self,
        method: str,
        target: Target,
        user: User | None,
        answer: Answer,
        *,
        user_agent: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> None:
        verb = _VERBS[method]
        if verb == "delete" and not target.name:
            verb = "deletecollection"
        line = AuditLine(
            time=self._clock.precise_timestamp(),
            user=user.name if user is not None else "",
            verb=verb,
            user_agent=user_agent[:_MAX_AGENT],
            group=target.group,
            resource=target.plural,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name or answer.name,
            uid=answer.uid,
            code=answer.code,
            resource_version=answer.revision,
            node=answer.node,
            reason=reason,
            dry_run=dry_run,
        )
        data = self._encoder.encode(line) + b"\n"
        if self._bytes + len(data) > self._max_bytes and self._bytes:
            self._rotate()
        os.write(self._file, data)
        self._bytes += len(data)

    def _rotate(self) -> None:
        os.close(self._file)
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()

    def close(self) -> None:
        os.close(self._file)
