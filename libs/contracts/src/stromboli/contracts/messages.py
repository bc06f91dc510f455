"""How a message is declared: a tagged Struct with its subject template beside it.

Evolution follows four rules: a new field has a default; a field is never removed or given
another meaning; its type does not change; a breaking change is a new tag (`.v2`) beside the
old one. Stored samples of every message ever sent are decoded in the tests.
"""

from collections.abc import Callable
from typing import ClassVar, TypeVar

import msgspec

from stromboli.contracts.subjects import SubjectTemplate


class Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    omit_defaults=True,
    gc=False,  # such trees cannot hold cycles
):
    """What everything on the bus has in common. The W3C trace context travels in headers."""

    template: ClassVar[SubjectTemplate]

    cause: str = ""
    """Id of the message (or watch event, or timer) that made the sender speak."""

    def subject(self) -> str:
        """Where this message travels."""
        return self.template.fill({field: getattr(self, field) for field in self.template.fields})


M = TypeVar("M", bound=Message)

DECLARED: list[type[Message]] = []
"""Every message type, in the order of declaration; generators and tests walk it."""


def travels_on(template: str) -> Callable[[type[M]], type[M]]:
    """Declare the subject of a message; each hole must be a field or property of it."""
    parsed = SubjectTemplate(template)

    def declare(message: type[M]) -> type[M]:
        missing = [name for name in parsed.fields if not hasattr(message, name)]
        if missing:
            raise TypeError(f"{message.__name__} has no {missing} for its subject {template}")
        message.template = parsed
        DECLARED.append(message)
        return message

    return declare
