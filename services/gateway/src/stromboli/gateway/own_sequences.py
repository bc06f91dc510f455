"""Which messages of STATE are not ours, told without reading them.

While one gateway leads, it alone writes to STATE, so it need not read back what it has written:
its acknowledged sequences are consecutive. A sequence that is missing among them belongs to
somebody else: a leader that was deposed a moment ago, or a person. Pure: no I/O.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class OwnSequences:
    """The sequences that were acknowledged to us, as far as they have gaps."""

    last: int
    """Everything up to here was read, or is ours, but for what is missing."""
    _missing: set[int] = field(default_factory=set[int])
    _suspected: set[int] = field(default_factory=set[int])

    def acknowledged(self, sequence: int) -> None:
        """This one is ours."""
        self._reach(sequence - 1)
        self.last = max(self.last, sequence)
        self._missing.discard(sequence)

    def foreign(self, last_sequence: int) -> list[int]:
        """What was missing at the last look and still is; then it is not missed any more.

        `last_sequence` is the stream's own. What is new at this look may be ours, with an
        acknowledgement that is still on its way.
        """
        foreign = sorted(self._suspected & self._missing)
        self._missing.difference_update(foreign)
        self._reach(last_sequence)
        self._suspected = set(self._missing)
        return foreign

    @property
    def known_up_to(self) -> int:
        """From here on a reader goes on when we write no longer."""
        return min(self._missing) - 1 if self._missing else self.last

    def _reach(self, sequence: int) -> None:
        self._missing.update(range(self.last + 1, sequence + 1))
        self.last = max(self.last, sequence)
