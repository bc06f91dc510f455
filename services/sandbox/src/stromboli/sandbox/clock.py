"""The time as objects carry it: RFC 3339, UTC, whole seconds.

A thousand creates a second ask for the same second, so the text is kept until the second is
over. Nothing else in the sandbox formats a time.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["Clock"]


class Clock:
    def __init__(self, seconds: Callable[[], float] = time.time) -> None:
        self._seconds = seconds
        self._second = -1
        self._text = ""

    def now(self) -> float:
        return self._seconds()

    def timestamp(self) -> str:
        second = int(self._seconds())
        if second != self._second:
            self._second = second
            self._text = self.text_of(second)
        return self._text

    def text_of(self, seconds: float) -> str:
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds_of(self, text: str) -> float:
        return datetime.fromisoformat(text).timestamp()

    def precise_timestamp(self) -> str:
        microseconds = int(self._seconds() % 1 * 1_000_000)
        return f"{self.timestamp()[:-1]}.{microseconds:06d}Z"
