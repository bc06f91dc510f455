"""A number that changes from time to time: what it was, and for how long."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Steps", "grid"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(slots=True)
class Steps:
    """A step function of time, zero before its first step. Time never goes back."""

    moments: list[float] = field(default_factory=list[float])
    values: list[float] = field(default_factory=list[float])

    @property
    def last(self) -> float:
        return self.values[-1] if self.values else 0.0

    def set(self, now: float, value: float) -> None:
        """From `now` on. What held for no time at all leaves no trace."""
        if self.moments and self.moments[-1] == now:
            self.moments.pop()
            self.values.pop()
        if value != self.last:
            if self.moments and now < self.moments[-1]:
                raise ValueError(f"time went back from {self.moments[-1]} to {now}")
            self.moments.append(now)
            self.values.append(value)

    def add(self, now: float, change: float) -> None:
        self.set(now, self.last + change)

    def at(self, moments: Floats) -> Floats:
        """The value at each of the moments."""
        values = np.concatenate(([0.0], np.asarray(self.values, dtype=np.float64)))
        return values[np.searchsorted(np.asarray(self.moments), moments, side="right")]

    def integral(self, begin: float, end: float) -> float:
        """Value times seconds, between two moments."""
        if end <= begin:
            return 0.0
        inner = [moment for moment in self.moments if begin < moment < end]
        borders = np.array([begin, *inner, end])
        return float(np.sum(self.at(borders[:-1]) * np.diff(borders)))

    def mean(self, begin: float, end: float) -> float:
        """Over the time between; of no time, what it is then."""
        if end <= begin:
            return float(self.at(np.array([end]))[0])
        return self.integral(begin, end) / (end - begin)

    def peak(self) -> float:
        return max(self.values, default=0.0)

    def means(self, borders: Floats) -> Floats:
        """The mean between each two neighbouring borders, all at once."""
        moments = np.unique(np.concatenate((borders, np.asarray(self.moments))))
        moments = moments[(moments >= borders[0]) & (moments <= borders[-1])]
        areas = np.concatenate(([0.0], np.cumsum(self.at(moments[:-1]) * np.diff(moments))))
        return np.diff(areas[np.searchsorted(moments, borders)]) / np.diff(borders)


def grid(many: list[Steps], begin: float, end: float) -> Floats:
    """Every moment from `begin` on, before `end`, at which one of them changes."""
    found = {moment for one in many for moment in one.moments if begin < moment < end}
    return np.array([begin, *sorted(found)]) if end > begin else np.array([begin])
