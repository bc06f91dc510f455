"""Where admission's certificates are kept: in two Secrets, or in a folder on this machine.

The authority's key is kept apart from what admission is given to serve with, so that admission
can't sign. A Secret is written with the resourceVersion it was read at, so two gateways that both
believe to lead can't mix their certificates.
"""

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from stromboli.gateway.certifying import Kept, Pair, trusted_by
from stromboli.kube import KubeClient, PatchType, Resource

__all__ = ["CertificateStore", "FolderStore", "SecretStore"]

_SECRETS: Final = Resource("", "v1", "secrets", namespaced=True)
_MANAGER: Final = "stromboli-gateway"


class CertificateStore(Protocol):
    """Remembers certificates over restarts."""

    async def load(self) -> Kept: ...

    async def save(self, kept: Kept) -> None:
        """Keep this instead of what was loaded last."""
        ...


class _Authority(msgspec.Struct):
    certificate: bytes = b""
    key: bytes = b""
    former: bytes = b""


@dataclass(slots=True)
class FolderStore:
    """Files that admission on the same machine reads."""

    folder: Path

    async def load(self) -> Kept:
        try:
            raw = (self.folder / "authority.json").read_bytes()
            authority = msgspec.json.decode(raw, type=_Authority)
        except (OSError, msgspec.MsgspecError):
            return Kept()
        return _kept(
            authority, _contents(self.folder / "tls.crt"), _contents(self.folder / "tls.key")
        )

    async def save(self, kept: Kept) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(self.folder / "authority.json", msgspec.json.encode(_authority(kept)))
        _write(self.folder / "ca.crt", trusted_by(kept))
        if kept.server is not None:
            # Admission loads the two only as a pair that fits, whenever it looks.
            _write(self.folder / "tls.key", kept.server.key)
            _write(self.folder / "tls.crt", kept.server.certificate)


def _contents(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _write(file: Path, content: bytes) -> None:
    if _contents(file) == content:
        return
    scratch = file.with_name(f".{file.name}.new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    scratch.rename(file)


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Secret(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] | None = None


@dataclass(slots=True)
class SecretStore:
    """Two Secrets of Stromboli's own namespace; the name of the first ends with `-authority`."""

    kube: KubeClient
    namespace: str
    name: str
    _versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def authority_name(self) -> str:
        return f"{self.name}-authority"

    async def load(self) -> Kept:
        authority = await self._read(self.authority_name)
        server = await self._read(self.name)
        return _kept(
            _Authority(
                authority.get("ca.crt", b""),
                authority.get("ca.key", b""),
                authority.get("former.crt", b""),
            ),
            server.get("tls.crt", b""),
            server.get("tls.key", b""),
        )

    async def save(self, kept: Kept) -> None:
        authority = _authority(kept)
        await self._write(
            self.authority_name,
            {
                "ca.crt": authority.certificate,
                "ca.key": authority.key,
                "former.crt": authority.former,
            },
        )
        if kept.server is not None:
            await self._write(
                self.name,
                {
                    "tls.crt": kept.server.certificate,
                    "tls.key": kept.server.key,
                    "ca.crt": trusted_by(kept),
                },
            )

    async def _read(self, name: str) -> dict[str, bytes]:
        raw = await self.kube.get_or_none(_SECRETS, self.namespace, name)
        if raw is None:
            self._versions.pop(name, None)
            return {}
        secret = msgspec.json.decode(raw, type=_Secret)
        self._versions[name] = secret.metadata.resource_version
        return {key: base64.b64decode(value) for key, value in (secret.data or {}).items()}

    async def _write(self, name: str, files: dict[str, bytes]) -> None:
        data = {key: base64.b64encode(content).decode() for key, content in files.items()}
        version = self._versions.get(name)
        if version is None:
            manifest: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "Opaque",
                "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "stromboli"}},
                "data": data,
            }
            written = await self.kube.create(
                _SECRETS, self.namespace, manifest, field_manager=_MANAGER
            )
        else:
            written = await self.kube.patch(
                _SECRETS,
                self.namespace,
                name,
                {"metadata": {"resourceVersion": version}, "data": data},
                patch_type=PatchType.MERGE,
                field_manager=_MANAGER,
            )
        self._versions[name] = written.resource_version


def _authority(kept: Kept) -> _Authority:
    if kept.authority is None:
        return _Authority(former=kept.former)
    return _Authority(kept.authority.certificate, kept.authority.key, kept.former)


def _kept(authority: _Authority, certificate: bytes, key: bytes) -> Kept:
    return Kept(
        authority=Pair(authority.certificate, authority.key) if authority.certificate else None,
        former=authority.former,
        server=Pair(certificate, key) if certificate and key else None,
    )
