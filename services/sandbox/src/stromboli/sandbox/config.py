"""Every setting of the server, with its default and its bounds."""

from pathlib import Path
from typing import Final

import msgspec

from stromboli.sandbox.errors import ConfigError
from stromboli.sandbox.journal import FsyncPolicy

__all__ = ["SandboxConfig"]

MIB: Final = 1024 * 1024


class SandboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    data_dir: Path
    """Journal, certificates and audit log live here; one server at a time."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes any free port."""
    tls: bool = True
    """Off serves plain HTTP and leaves only tokens to tell users apart."""
    token_file: Path | None = None
    """Further users, as kube's static token file: token,user,uid,"group1,group2"."""
    kubeconfig_out: Path | None = None
    kubeconfigs_out: Path | None = None
    """A directory for a kubeconfig of each user of the token file."""
    crds: Path | None = None
    """A directory of CustomResourceDefinition manifests to create or update at the start."""
    audit_log: Path | None = None
    """Default: audit.log in the data directory."""
    audit_max_bytes: int = 256 * MIB
    """The file is then renamed to .1, replacing the one before."""
    bookmark_interval_s: float = 60.0
    watch_window: int = 20_000
    """How many changes per resource are remembered for watches that resume."""
    watch_buffer: int = 10_000
    """How many events a slow watcher may be behind before it is cut off."""
    watch_timeout_s: int = 3600
    """How long a watch lasts that does not say."""
    max_body_bytes: int = 3 * MIB
    fsync: FsyncPolicy = "never"
    fsync_interval_s: float = 1.0
    snapshot_bytes: int = 64 * MIB
    """Size of the journal at which a snapshot replaces it."""

    def checked(self) -> "SandboxConfig":
        """Itself, or ConfigError naming the setting that cannot be used."""
        positive = (
            "bookmark_interval_s",
            "watch_window",
            "watch_buffer",
            "watch_timeout_s",
            "max_body_bytes",
            "fsync_interval_s",
            "snapshot_bytes",
            "audit_max_bytes",
        )
        for name in positive:
            value: float = getattr(self, name)
            if value <= 0:
                raise ConfigError(name, f"{value} is not above 0")
        if not 0 <= self.port <= 65535:
            raise ConfigError("port", f"{self.port} is not a port; 0 takes any free one")
        if self.fsync not in {"never", "interval", "always"}:
            raise ConfigError("fsync", f"{self.fsync!r} is not never, interval or always")
        for name in ("token_file", "crds"):
            path: Path | None = getattr(self, name)
            if path is not None and not path.exists():
                raise ConfigError(name, f"{str(path)!r} does not exist")
        return self
