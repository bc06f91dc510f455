"""How many examples a property test looks at: few every day, many when somebody has the time.

Hypothesis begins elsewhere each time, so that the everyday runs together see many. Before a
release, or after a change of what decides, `STROMBOLI_EFFORT=10` looks at ten times as many.
"""

import os
from typing import Final

__all__ = ["examples"]

_LEAST: Final = 10


def examples(usual: int) -> int:
    """So many, times the effort that was asked for."""
    return max(_LEAST, round(usual * float(os.environ.get("STROMBOLI_EFFORT", "1"))))
