"""How busy nodes really are, whatever their pods asked for: a measurement from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["NO_LOADS", "Loads", "NodeLoad"]


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Shares of the whole node, 0 to 1."""

    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Loads:
    """One measurement of all nodes; those that it does not name are unknown."""

    at: float = float("-inf")
    of: Mapping[str, NodeLoad] = field(default_factory=dict[str, NodeLoad])


NO_LOADS = Loads()
