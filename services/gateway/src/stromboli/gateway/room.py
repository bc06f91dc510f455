"""How full STATE is, and which facts wait for room there.

STATE has a size limit and refuses what is beyond it; dropping the oldest facts instead would
take living objects out of every view in silence. A single server lets a smaller message replace
a larger one even then, a cluster of servers refuses every message. So objects that are not on
STATE yet stop before the limit: what is left is for the changes and ends of those that are,
and ends are what makes room. Pure: no I/O.
"""

import asyncio
from dataclasses import dataclass, field

from stromboli.runtime.telemetry import gauge

_KEPT_FREE = 0.05
_WARN_FROM = 0.7
_OVERHEAD = 200
"""About what a message takes beside its payload: subject, headers, the server's record."""

_used = gauge("stromboli.state.bytes", "Bytes that STATE takes", unit="By")
_limit = gauge("stromboli.state.limit", "Bytes that STATE may take; 0 for no limit", unit="By")


@dataclass(slots=True)
class Room:
    """The room on STATE, as last measured, and who waits for some."""

    limit: int = 0
    """In bytes; 0 for no limit."""
    used: int = 0
    _waiting: set[str] = field(default_factory=set[str])
    """Subjects whose facts found no room."""
    _under_way: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of new objects that a measurement may not contain yet, by subject."""
    _measured: asyncio.Event = field(default_factory=asyncio.Event)

    def measured(self, used: int) -> None:
        """STATE takes so many bytes: whoever waits for room may look again."""
        self.used = used + sum(self._under_way.values())
        _used.set(used)
        _limit.set(self.limit)
        self._measured.set()
        self._measured = asyncio.Event()

    def add(self, subject: str, payload: bytes) -> None:
        """An object that was not there is on its way."""
        self._under_way[subject] = size = len(payload) + _OVERHEAD
        self.used += size

    @property
    def takes_new_objects(self) -> bool:
        return not self.limit or self.used < self.limit * (1 - _KEPT_FREE)

    @property
    def is_filling(self) -> bool:
        """Should somebody hear of it before it is full?"""
        return bool(self.limit) and self.used >= self.limit * _WARN_FROM

    # Who waits.

    def wait(self, subject: str) -> asyncio.Event:
        """A fact found no room; the event is the next measurement."""
        self._under_way.pop(subject, None)
        self._waiting.add(subject)
        return self._measured

    def stands(self, subject: str) -> None:
        """What was on its way to this subject, or waited, is there or was given up."""
        self._under_way.pop(subject, None)
        self._waiting.discard(subject)

    def forget(self) -> None:
        """Whoever was writing has stopped."""
        self._waiting.clear()
        self._under_way.clear()

    @property
    def problem(self) -> str:
        """Why the views miss something; empty while they do not."""
        if not self._waiting:
            return ""
        return (
            f"STATE is full: {self.used} of {self.limit} bytes; raise state_max_bytes "
            "or delete what is finished"
        )
