"""Which names Kubernetes accepts, why it refuses the others, and how it makes up new ones.

Each check returns the sentences of what is wrong, none if all is well. Most names are good, so
the checks that every object passes are remembered for names seen before.
"""

import re
import secrets
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "NAME_RULES",
    "NameRule",
    "config_key_problems",
    "generated_name",
    "label_key_problems",
    "label_value_problems",
    "port_name_problems",
]

NameRule: TypeAlias = Callable[[str], tuple[str, ...]]

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = r"[-._a-zA-Z0-9]+"

_LABEL_RE: Final = re.compile(_LABEL)
_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)
_LABEL_1035_RE: Final = re.compile(_LABEL_1035)
_KEY_NAME_RE: Final = re.compile(_KEY_NAME)
_CONFIG_KEY_RE: Final = re.compile(_CONFIG_KEY)

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM_LENGTH: Final = 5
_MAX_BASE_LENGTH: Final = 63 - _RANDOM_LENGTH


def generated_name(base: str) -> str:
    """A name as generateName makes it: the base, cut to leave room, and five random letters."""
    return base[:_MAX_BASE_LENGTH] + "".join(
        secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH)
    )


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _regex(sentence: str, pattern: str, *examples: str) -> str:
    told = " or ".join(f"'{example}', " for example in examples)[:-2]
    return f"{sentence} (e.g. {told}, regex used for validation is '{pattern}')"


@lru_cache(maxsize=4096)
def subdomain_problems(value: str) -> tuple[str, ...]:
    if len(value) > 253:
        return (_too_long(253),)
    problems: list[str] = []
    if not _SUBDOMAIN_RE.fullmatch(value):
        sentence = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '-' or '.', and must start and end with an alphanumeric character"
        )
        problems.append(_regex(sentence, _SUBDOMAIN, "example.com"))
    return tuple(problems)


@lru_cache(maxsize=4096)
def label_problems(value: str) -> tuple[str, ...]:
    if len(value) > 63:
        return (_too_long(63),)
    problems: list[str] = []
    if not _LABEL_RE.fullmatch(value):
        if _SUBDOMAIN_RE.fullmatch(value):
            problems.append("must not contain dots")
        else:
            sentence = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or"
                " '-', and must start and end with an alphanumeric character"
            )
            problems.append(_regex(sentence, _LABEL, "my-name", "123-abc"))
    return tuple(problems)


@lru_cache(maxsize=4096)
def label_1035_problems(value: str) -> tuple[str, ...]:
    if len(value) > 63:
        return (_too_long(63),)
    problems: list[str] = []
    if not _LABEL_1035_RE.fullmatch(value):
        sentence = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start"
            " with an alphabetic character, and end with an alphanumeric character"
        )
        problems.append(_regex(sentence, _LABEL_1035, "my-name", "abc-123"))
    return tuple(problems)


def path_segment_problems(value: str) -> tuple[str, ...]:
    """Names of RBAC objects may be almost anything that fits into a URL."""
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{bad}'" for bad in "/%" if bad in value)


@lru_cache(maxsize=4096)
def label_key_problems(value: str) -> tuple[str, ...]:
    sentence = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
        " alphanumeric character"
    )
    examples = ("MyName", "my.name", "123-abc")
    parts = value.split("/")
    problems: list[str] = []
    if len(parts) > 2:
        told = _regex(sentence, _KEY_NAME, *examples)
        tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {told} {tail}",)
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        problems += [f"prefix part {problem}" for problem in subdomain_problems(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not _KEY_NAME_RE.fullmatch(name):
        problems.append("name part " + _regex(sentence, _KEY_NAME, *examples))
    return tuple(problems)


@lru_cache(maxsize=4096)
def label_value_problems(value: str) -> tuple[str, ...]:
    if len(value) > 63:
        return (_too_long(63),)
    problems: list[str] = []
    if value and not _KEY_NAME_RE.fullmatch(value):
        sentence = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_'"
            " or '.', and must start and end with an alphanumeric character"
        )
        problems.append(_regex(sentence, f"({_KEY_NAME})?", "MyValue", "my_value", "12345"))
    return tuple(problems)


def config_key_problems(value: str) -> tuple[str, ...]:
    """Keys of ConfigMaps and Secrets become file names."""
    if len(value) > 253:
        return (_too_long(253),)
    problems: list[str] = []
    if not _CONFIG_KEY_RE.fullmatch(value):
        sentence = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(_regex(sentence, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in {".", ".."}:
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return tuple(problems)


def port_name_problems(value: str) -> tuple[str, ...]:
    problems: list[str] = []
    if len(value) > 15:
        problems.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", value):
        spelled = "alpha-numeric"  # codespell:ignore - as kube spells it
        problems.append(f"must contain only {spelled} characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


NAME_RULES: Final[dict[str, NameRule]] = {
    "subdomain": subdomain_problems,
    "label": label_problems,
    "label1035": label_1035_problems,
    "path": path_segment_problems,
}
"""Which rule a kind's names follow; the resource table names one."""
