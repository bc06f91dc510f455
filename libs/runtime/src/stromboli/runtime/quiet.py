"""Say the same thing at most once per interval, and how often it was left unsaid.

An outage must not be a log storm: the hundredth "bus.unreachable" of a minute tells
nothing that the first did not, and hides the line that matters.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

__all__ = ["OncePer", "once_per"]

_MAX_KEYS: Final = 1024


def once_per(interval_s: float, log: FilteringBoundLogger) -> "OncePer":
    """A quiet twin of a logger: `once_per(30, log).warning("bus.unreachable", url=…)`."""
    return OncePer(log, interval_s)


class OncePer:
    """A logger that writes the same event at most once per interval.

    The next line that is written tells in `suppressed` how many were not. The same event
    with another `key` (a peer, a kind) is another event. The keys are bounded: the least
    recently written one is forgotten, at worst it is logged once more.
    """

    def __init__(
        self,
        log: FilteringBoundLogger,
        interval_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._interval_s = interval_s
        self._monotonic = monotonic
        self._seen: dict[object, tuple[float, int]] = {}
        self._lock = threading.Lock()  # libraries log from threads of their own

    def debug(self, event: str, *, key: object = None, **fields: Any) -> None:
        self.log(logging.DEBUG, event, key=key, **fields)

    def info(self, event: str, *, key: object = None, **fields: Any) -> None:
        self.log(logging.INFO, event, key=key, **fields)

    def warning(self, event: str, *, key: object = None, **fields: Any) -> None:
        self.log(logging.WARNING, event, key=key, **fields)

    def error(self, event: str, *, key: object = None, **fields: Any) -> None:
        self.log(logging.ERROR, event, key=key, **fields)

    def log(self, level: int, event: str, *, key: object = None, **fields: Any) -> None:
        suppressed = self._allowed((event, key))
        if suppressed is None:
            return
        if suppressed:
            fields["suppressed"] = suppressed
        self._log.log(level, event, **fields)

    def _allowed(self, key: object) -> int | None:
        """How many were suppressed before this one, or None if this one is too."""
        now = self._monotonic()
        with self._lock:
            last, suppressed = self._seen.get(key, (-float("inf"), 0))
            if now - last < self._interval_s:
                self._seen[key] = (last, suppressed + 1)
                return None
            self._seen.pop(key, None)  # written now: to the end of the order
            if len(self._seen) >= _MAX_KEYS:
                del self._seen[next(iter(self._seen))]
            self._seen[key] = (now, 0)
            return suppressed
