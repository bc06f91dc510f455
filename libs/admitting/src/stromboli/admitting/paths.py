"""The eleven paths of Volcano's webhook manager: what comes to each, and who decides there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.admitting.conf import AdmissionConf
from stromboli.admitting.questions import Resource, Review, Surroundings, Verdict
from stromboli.admitting.rules import Default, Rule

__all__ = ["CREATE", "DELETE", "UPDATE", "Decide", "Path"]

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"

Decide = Callable[[Review, Surroundings, AdmissionConf], Verdict]


@dataclass(frozen=True, slots=True)
class Path:
    """One webhook: its name, what the API server sends it, and the tables it decides by."""

    path: str
    webhook: str
    resource: Resource
    kind: str
    operations: tuple[str, ...]
    decide: Decide
    queues_named: Callable[[Review], set[str]]
    rules: Mapping[str, tuple[Rule[Any], ...]] = field(default_factory=dict[str, Any])
    """By operation."""
    defaults: tuple[Default[Any], ...] = ()
    warnings: tuple[Rule[Any], ...] = ()
    """What is accepted with a warning."""

    @property
    def mutates(self) -> bool:
        return self.path.endswith("/mutate")
