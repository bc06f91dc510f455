"""What a template rule looks at, and what it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from stromboli.admitting.templates.shapes import Container, PodSpec, PodTemplate

__all__ = ["ContainerCase", "TemplateCase", "TemplateRule", "template_rule"]

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class TemplateCase:
    template: PodTemplate
    spec: PodSpec
    path: str
    spec_path: str


@dataclass(frozen=True, slots=True)
class ContainerCase:
    """A container with its place; `is_init` also of sidecars, which restart always."""

    container: Container
    path: str
    spec: PodSpec
    is_init: bool
    volumes: frozenset[str]
    devices: frozenset[str]


@dataclass(frozen=True, slots=True)
class TemplateRule(Generic[C]):
    """One rule of the core API; its function yields whole sentences."""

    name: str
    about: str
    check: Callable[[C], Iterator[str]]
    fields: tuple[str, ...] = ()
    """The fields that the rule is about; where all are absent, there is nothing to check."""

    def concerns(self, part: PodSpec | Container) -> bool:
        """Whether the pod or container has what the rule is about."""
        for field in self.fields:  # asked 40 times per review: any() costs more
            if getattr(part, field):
                return True
        return not self.fields


def template_rule(
    name: str, *, about: str, fields: tuple[str, ...] = ()
) -> Callable[[Callable[[C], Iterator[str]]], TemplateRule[C]]:
    """Make a rule of the function below."""

    def made(check: Callable[[C], Iterator[str]]) -> TemplateRule[C]:
        return TemplateRule(name, about, check, fields)

    return made
