"""Which examples property tests look at, and how many of them.

Every day they look at the same ones, so that two people who run the same tests see the same.
`STROMBOLI_SEEDS=new` looks at others each time, and `STROMBOLI_EFFORT=10` at ten times as many:
before a release, or after a change of what decides. What they find is kept as an `@example`.

How long an example takes says more about the machine than about the code, so nothing fails by it.
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

__all__ = ["examples"]

_LEAST: Final = 10

_NEW: Final = os.environ.get("STROMBOLI_SEEDS", "fixed") == "new"

settings.register_profile(
    "stromboli",
    derandomize=not _NEW,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("stromboli")


def examples(usual: int) -> int:
    """So many, times the effort that was asked for."""
    return max(_LEAST, round(usual * float(os.environ.get("STROMBOLI_EFFORT", "1"))))
