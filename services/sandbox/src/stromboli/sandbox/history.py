"""The recent changes of one resource: what a watch resumes from and an old list is rebuilt from.

The window is bounded by count, per resource, so a resource that changes every second does not
push out the past of the others. Asking for what was forgotten is the caller's 410, never an
incomplete answer.
"""

from bisect import bisect_right

from stromboli.sandbox.changes import Change

__all__ = ["History"]


class History:
    def __init__(self, window: int, floor: int = 0) -> None:
        self._window = window
        self._changes: list[Change] = []
        self._revisions: list[int] = []
        self.floor = floor
        """The newest forgotten revision: what happened after it is known completely."""

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._revisions.append(change.revision)
        # Cutting in halves keeps the cost of forgetting constant per change.
        if len(self._changes) >= 2 * self._window:
            self._cut(len(self._changes) - self._window)

    def after(self, revision: int) -> list[Change]:
        return self._changes[bisect_right(self._revisions, revision) :]

    def covers(self, revision: int) -> bool:
        return revision >= self.floor

    def forget(self, revision: int) -> None:
        self._cut(bisect_right(self._revisions, revision))
        self.floor = max(self.floor, revision)

    def _cut(self, count: int) -> None:
        if count > 0:
            self.floor = max(self.floor, self._revisions[count - 1])
            del self._changes[:count]
            del self._revisions[:count]
