"""Read a workload: how much of what is done, with the reasons beside the numbers.

Every file has the sections `full` and `quick` with the same keys. A misspelt key is refused,
because a workload that is silently a default measures something else.
"""

from typing import TypeVar

import msgspec
import yaml

from bench.objects import WORKLOADS

__all__ = ["load_workload"]

T = TypeVar("T", bound=msgspec.Struct)


def load_workload(name: str, type_: type[T], *, quick: bool) -> T:
    """One section of `workloads/<name>.yaml`; `type_` must forbid unknown fields."""
    path = WORKLOADS / f"{name}.yaml"
    section = "quick" if quick else "full"
    try:
        return msgspec.convert(yaml.safe_load(path.read_text())[section], type_)
    except (KeyError, msgspec.ValidationError) as problem:
        raise ValueError(f"{path.name}, section {section!r}: {problem}") from problem
