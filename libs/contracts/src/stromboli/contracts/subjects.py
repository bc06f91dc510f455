"""Subjects are made from templates, and every value in them is checked and escaped.

A template is written beside the message it belongs to: `vc.state.{kind}.{namespace}.{name}`.
Kubernetes names may contain dots, which NATS reads as separators, so a dot becomes an
underscore; an underscore is not legal in those names, which makes the mapping reversible.
Cluster-scoped objects have no namespace and use `-`, which is not a legal name either.
"""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from stromboli.contracts.errors import BadSubject

ROOT = "vc"
"""First token of every subject of ours."""

CLUSTER = "-"
"""Stands for the namespace of cluster-scoped objects, and for "no kind" in fences."""

Plain = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9.:-]+\Z")]
"""A value that `escape` accepts: a message with any other is refused when it is decoded."""

_FIELD = re.compile(r"\{([a-z_]+)\}")
_PLAIN = re.compile(r"[A-Za-z0-9.:-]+")
_TOKEN = re.compile(r"[A-Za-z0-9_:-]+")


def escape(value: str) -> str:
    """Turn a Kubernetes name (or another plain value) into one subject token."""
    if not _PLAIN.fullmatch(value):
        raise BadSubject(value, "letters, digits, '-', '.' or ':', at least one")
    return value.replace(".", "_")


def unescape(token: str) -> str:
    """The Kubernetes name that `escape` made this token from."""
    if not _TOKEN.fullmatch(token):
        raise BadSubject(token, "one subject token of ours")
    return token.replace("_", ".")


def _filling(hole: str, value: str | int) -> str:
    text = str(value)
    return CLUSTER if hole == "namespace" and not text else escape(text)


class SubjectTemplate:
    """A subject with named holes: fill it, filter by it, or read it back."""

    def __init__(self, template: str) -> None:
        self.template = template
        self._tokens = template.split(".")
        self.fields = tuple(_FIELD.findall(template))
        pattern = r"\.".join(
            f"(?P<{hole[1]}>[^.*> ]+)" if (hole := _FIELD.fullmatch(token)) else re.escape(token)
            for token in self._tokens
        )
        self._pattern = re.compile(pattern)

    def fill(self, values: Mapping[str, str | int]) -> str:
        """The subject with every hole filled; an empty namespace becomes `-`."""
        return ".".join(
            _filling(hole[1], values[hole[1]]) if (hole := _FIELD.fullmatch(token)) else token
            for token in self._tokens
        )

    def filter(self, **known: str | int) -> str:
        """A NATS filter: holes that are not given match anything."""
        return ".".join(
            (_filling(hole[1], known[hole[1]]) if hole[1] in known else "*")
            if (hole := _FIELD.fullmatch(token))
            else token
            for token in self._tokens
        )

    def parse(self, subject: str) -> dict[str, str]:
        """The values that `fill` would have been given; `-` stays as it is."""
        match = self._pattern.fullmatch(subject)
        if match is None:
            raise BadSubject(subject, f"the form {self.template}")
        return {field: unescape(token) for field, token in match.groupdict().items()}

    def __repr__(self) -> str:
        return f"SubjectTemplate({self.template!r})"
