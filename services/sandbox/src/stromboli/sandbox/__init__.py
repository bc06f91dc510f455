"""An embedded Kubernetes API server for laptops, tests and simulation, and virtual kubelets.

The server stores and validates objects, tells watchers what changed, and collects what lost its
owner. It decides nothing about scheduling or jobs, and it is not for production: there is one
process, no authorisation beyond "who are you", and durability is that of one journal file.

It is loaded when it is asked for: the kubelets are a part of this package and do without it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stromboli.sandbox.config import SandboxConfig
    from stromboli.sandbox.server import SandboxServer

__all__ = ["SandboxConfig", "SandboxServer"]


def __getattr__(name: str) -> object:
    if name == "SandboxConfig":
        from stromboli.sandbox.config import SandboxConfig

        return SandboxConfig
    if name == "SandboxServer":
        from stromboli.sandbox.server import SandboxServer

        return SandboxServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
