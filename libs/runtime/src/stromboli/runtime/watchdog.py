"""Know when the event loop has stopped turning, and what it was doing then.

A task beats several times a second; the time it wakes late is the loop's pause, measured
all the time because the life of a lease must be well above the longest one. A thread
watches the beat from outside: while the loop is stuck nothing inside it can speak, so the
thread logs the line of code that is holding it.
"""

import sys
import threading
import traceback
from typing import Final

from stromboli.runtime.clock import Clock, SystemClock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import gauge, histogram

__all__ = ["Watchdog"]

log = get_logger(__name__)

PAUSE: Final = histogram(
    "stromboli.loop.pause", "How late the event loop was in waking a task that was due."
)
LONGEST: Final = gauge(
    "stromboli.loop.longest_pause", "The longest pause of the event loop so far.", unit="s"
)

_BEAT_S: Final = 0.25
_STACK_LINES: Final = 8


class Watchdog:
    """Run `run()` as a task for the whole life of the process."""

    def __init__(
        self,
        *,
        warn_after_s: float = 1.0,
        stalled_after_s: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        self.warn_after_s = warn_after_s
        self.stalled_after_s = stalled_after_s
        self.longest_pause_s = 0.0
        self._clock = clock or SystemClock()
        self._last_beat = self._clock.monotonic()
        self._loop_thread = threading.get_ident()
        self._done = threading.Event()

    @property
    def silence_s(self) -> float:
        """How long ago the loop has last shown a sign of life, beyond the usual beat."""
        return max(0.0, self._clock.monotonic() - self._last_beat - _BEAT_S)

    @property
    def is_stalled(self) -> bool:
        return self.silence_s > self.stalled_after_s

    async def run(self) -> None:
        """Beat until cancelled."""
        self._loop_thread = threading.get_ident()
        self._last_beat = self._clock.monotonic()
        watcher = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        watcher.start()
        try:
            while True:
                await self._clock.sleep(_BEAT_S)
                self._beat()
        finally:
            self._done.set()

    def _beat(self) -> None:
        pause = self.silence_s
        self._last_beat = self._clock.monotonic()
        PAUSE.record(pause)
        if pause > self.longest_pause_s:
            self.longest_pause_s = pause
            LONGEST.set(pause)
        if pause > self.warn_after_s:
            log.warning("loop.resumed", pause_s=round(pause, 3))

    def _watch(self) -> None:
        reported: float | None = None
        while not self._done.wait(min(_BEAT_S, self.warn_after_s / 2)):
            beat = self._last_beat
            # One line per pause, however long it gets.
            if self.silence_s > self.warn_after_s and reported != beat:
                reported = beat
                log.warning("loop.stalled", silence_s=round(self.silence_s, 3), at=self._stack())

    def _stack(self) -> list[str]:
        # The documented way to see another thread's stack, its underscore notwithstanding.
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001
        if frame is None:
            return []
        summary = traceback.extract_stack(frame)[-_STACK_LINES:]
        return [f"{entry.filename}:{entry.lineno} {entry.name}" for entry in summary]
