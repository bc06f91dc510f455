"""The forms of names that Kubernetes knows, and its words for names that do not have them.

Each function returns the complaints about a text, none when it is in order. Of a text that is
too long nothing more is said: nobody should pay for matching a megabyte.
"""

import re
from collections.abc import Sequence
from typing import Final

__all__ = [
    "in_brackets",
    "label_faults",
    "label_value_faults",
    "qualified_name_faults",
    "service_name_faults",
    "subdomain_faults",
]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

LABEL_FORM: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SERVICE_FORM: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_FORM: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_FORM: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_FORM: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def label_faults(text: str) -> list[str]:
    """DNS labels: names of containers, volumes, tasks."""
    if len(text) > 63:
        return [_too_long(63)]
    return [] if _LABEL.fullmatch(text) else [LABEL_FORM]


def service_name_faults(text: str) -> list[str]:
    """DNS labels of the older kind, which begin with a letter: names of Services."""
    if len(text) > 63:
        return [_too_long(63)]
    return [] if _SERVICE.fullmatch(text) else [SERVICE_FORM]


def subdomain_faults(text: str) -> list[str]:
    """DNS subdomains: names of most objects."""
    if len(text) > 253:
        return [_too_long(253)]
    return [] if _SUBDOMAIN.fullmatch(text) else [SUBDOMAIN_FORM]


def label_value_faults(text: str) -> list[str]:
    if len(text) > 63:
        return [_too_long(63)]
    return [] if not text or _QUALIFIED.fullmatch(text) else [LABEL_VALUE_FORM]


def qualified_name_faults(text: str) -> list[str]:
    """Keys of labels and names of resources: `name` or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [
            "a qualified name " + QUALIFIED_FORM + " with an optional DNS subdomain prefix and "
            "'/' (e.g. 'example.com/MyName')"
        ]
    faults: list[str] = []
    if slash:
        faults = (
            [f"prefix part {fault}" for fault in subdomain_faults(prefix)]
            if prefix
            else ["prefix part must be non-empty"]
        )
    if not name:
        faults.append("name part must be non-empty")
    if len(name) > 63:
        faults.append("name part " + _too_long(63))
    elif not _QUALIFIED.fullmatch(name):
        faults.append("name part " + QUALIFIED_FORM)
    return faults


def in_brackets(faults: Sequence[str]) -> str:
    """As Go prints a slice of strings."""
    return f"[{' '.join(faults)}]"
