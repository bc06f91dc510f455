"""Look for cyclic garbage rarely, in processes that hold very many objects for long.

Facts and what is derived from them are trees: they go when nobody refers to them. Python's search
for cycles walks through all of them again and again as more are made, a quarter of the time
of a cycle over ten thousand jobs, to find next to nothing.
"""

import gc
from typing import Final

__all__ = ["collect_rarely"]

_THRESHOLDS: Final = (100_000, 50, 100)


def collect_rarely() -> None:
    """For the whole process; what is cyclic garbage stays a little longer."""
    gc.set_threshold(*_THRESHOLDS)
