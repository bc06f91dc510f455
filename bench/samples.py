"""Many durations as the few numbers that people compare."""

import math
import statistics
from collections.abc import Sequence

from bench.figures import Row

__all__ = ["in_ms", "median_and_best", "percentile"]


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    if not sorted_values:
        raise ValueError("there is no percentile of nothing; measure at least once")
    return sorted_values[max(1, math.ceil(len(sorted_values) * share)) - 1]


def in_ms(durations_s: Sequence[float]) -> Row:
    """The columns of a latency."""
    ordered = sorted(duration * 1000 for duration in durations_s)
    return {
        "n": len(ordered),
        "p50 ms": percentile(ordered, 0.50),
        "p90 ms": percentile(ordered, 0.90),
        "p99 ms": percentile(ordered, 0.99),
        "max ms": ordered[-1],
    }


def median_and_best(rates: Sequence[float]) -> Row:
    """The columns of a rate: the best run is the machine's, the median is the day's."""
    return {"median /s": statistics.median(rates), "best /s": max(rates), "runs": len(rates)}
