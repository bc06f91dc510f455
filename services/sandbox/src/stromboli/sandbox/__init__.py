"""An embedded Kubernetes API server for laptops, tests and simulation.

It stores and validates objects, tells watchers what changed, and collects what lost its owner.
It decides nothing about scheduling or jobs, and it is not for production: there is one process,
no authorisation beyond "who are you", and durability is that of one journal file.
"""

from stromboli.sandbox.config import SandboxConfig
from stromboli.sandbox.server import SandboxServer

__all__ = ["SandboxConfig", "SandboxServer"]
