"""Names within a pod, made from names of objects, which may be longer than those may be.

Users see the name of the object wherever it fits, and one that tells it apart where it does not.
"""

import re
from hashlib import blake2b
from typing import Final

__all__ = ["is_label_value", "volume_name"]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_STEM: Final = 50


def volume_name(wanted: str) -> str:
    """Of a volume in a pod: a DNS label of at most 63 characters, without dots."""
    if _LABEL.fullmatch(wanted):
        return wanted
    digest = blake2b(wanted.encode(), digest_size=6).hexdigest()
    stem = re.sub(r"[^a-z0-9]+", "-", wanted.lower())[:_STEM].strip("-")
    return f"{stem}-{digest}" if stem else digest


def is_label_value(text: str) -> bool:
    """Whether Kubernetes takes it as the value of a label; names of objects may be longer."""
    return _LABEL_VALUE.fullmatch(text) is not None
