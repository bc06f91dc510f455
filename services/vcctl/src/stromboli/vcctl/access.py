"""Which API server is meant: `--kubeconfig`, `KUBECONFIG`, and `--master` over both.

`--master` replaces the server's address and keeps everything else, as in Volcano. Our client
knows kubeconfigs only, so a changed copy of it is used: in a folder that nobody else can
read, and gone when the command is done.
"""

import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from stromboli.kube import KubeAccess, KubeClient
from stromboli.vcctl.errors import UnusableFile

__all__ = ["connected", "with_master"]

_FILE_KEYS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_USER_AGENT: Final = "vcctl"


@asynccontextmanager
async def connected(*, kubeconfig: str, master: str) -> AsyncGenerator[KubeClient, None]:
    """A client for the API server that the flags mean; an empty flag was not given."""
    if not master:
        access = KubeAccess(kubeconfig=kubeconfig or None, user_agent=_USER_AGENT)
        async with KubeClient.connect(access) as kube:
            yield kube
        return
    with tempfile.TemporaryDirectory(prefix="vcctl-") as private:
        copy = Path(private) / "kubeconfig"
        copy.write_text(with_master(_chosen(kubeconfig), master))
        access = KubeAccess(kubeconfig=str(copy), user_agent=_USER_AGENT)
        async with KubeClient.connect(access) as kube:
            yield kube


def with_master(path: Path | None, master: str) -> str:
    """The kubeconfig at `path`, every server in it replaced; without one, just that server."""
    if path is None:
        only = {"clusters": [{"name": "master", "cluster": {"server": master}}]}
        only["users"] = [{"name": "nobody", "user": {}}]
        only["contexts"] = [{"name": "master", "context": {"cluster": "master", "user": "nobody"}}]
        return yaml.safe_dump({**only, "current-context": "master"})
    try:
        config: Any = yaml.safe_load(path.read_text())
        for entry in config["clusters"]:
            entry["cluster"]["server"] = master
            _anchor(entry["cluster"], path.parent)
        for entry in config.get("users") or []:
            _anchor(entry.get("user") or {}, path.parent)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise UnusableFile(f"kubeconfig {str(path)!r} can not be read: {fault}") from fault
    except (AttributeError, KeyError, TypeError) as fault:
        raise UnusableFile(
            f"{str(path)!r} is no kubeconfig: expected a list of clusters, each with its server"
        ) from fault
    return yaml.safe_dump(config)


def _chosen(kubeconfig: str) -> Path | None:
    """The kubeconfig that is meant, or None if there is none at all."""
    named = kubeconfig or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    if named:
        return Path(named)
    usual = Path.home() / ".kube" / "config"
    return usual if usual.exists() else None


def _anchor(section: dict[str, Any], folder: Path) -> None:
    """Paths in a kubeconfig are relative to its folder, which the copy is not in."""
    for key in _FILE_KEYS:
        if section.get(key):
            section[key] = str((folder / section[key]).absolute())
