"""Which intents have ended: what keeps one that comes again from being applied again.

An acknowledgement can be lost with the connection, and then the intent comes back, perhaps
after its successors were applied; a sender can repeat itself when the server's window for
duplicates is over. OUTCOME knows every intent that was answered, so it is read along, also
while standing by. The newest answers are remembered; older intents have expired by themselves.
Pure: no I/O.
"""

import msgspec

from stromboli.runtime.bus.reader import LogMessage, LogPosition

REMEMBERED = 100_000


class _Answer(msgspec.Struct):
    intent_id: str = ""


_answers = msgspec.msgpack.Decoder(_Answer)


class EndedIntents:
    """The ids of intents that have an outcome. Feed it to a `LogReader` of OUTCOME."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # As a queue that can be searched: a dict keeps the order of insertion.
        self._ids: dict[str, None] = {}
        self._incarnation = ""
        self._sequence = 0
        self._is_caught_up = False

    def __contains__(self, intent_id: str) -> bool:
        return intent_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, intent_id: str) -> None:
        """Its outcome is stored."""
        self._ids[intent_id] = None
        while len(self._ids) > self._remembered:
            del self._ids[next(iter(self._ids))]

    def knows_all(self, incarnation: str, last_sequence: int) -> bool:
        """Is every answer up to this one of this log known here?"""
        if not self._is_caught_up or incarnation != self._incarnation:
            return False
        return self._sequence >= last_sequence

    # The LogListener protocol.

    def attach(self, position: LogPosition) -> int:
        self._is_caught_up = False
        if position.incarnation != self._incarnation:
            # What the log does not say has not ended: the sender never heard of it either.
            self._ids.clear()
            self._incarnation = position.incarnation
            self._sequence = max(0, position.last_sequence - self._remembered)
        self._sequence = min(self._sequence, position.last_sequence)
        return self._sequence + 1

    def apply(self, message: LogMessage) -> None:
        self._sequence = max(self._sequence, message.sequence)
        try:
            answer = _answers.decode(message.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return  # whoever the answer was for puts it aside
        if answer.intent_id:
            self.add(answer.intent_id)

    def caught_up(self) -> None:
        self._is_caught_up = True
