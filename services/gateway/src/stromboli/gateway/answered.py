"""What was answered, as OUTCOME tells it: the gateway's memory of what became of intents.

Three questions are answered from it. Has this intent ended, so that one which comes again is not
applied again? An acknowledgement can be lost with the connection, and a sender can repeat itself
when the server's window for duplicates is over. Which versions were written for a service, so
that its next leader knows what its view must have reached? And which pods were bound, or may
have been, that STATE does not show placed yet? A bind is answered without a version.

OUTCOME is read along, also while standing by. The newest answers are remembered. Pure: no I/O.
"""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.errors import Undecodable
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    AssumedPod,
    GangBound,
    OutcomeLog,
    PodBound,
)
from stromboli.runtime.bus.reader import LogMessage, LogPosition

REMEMBERED = 100_000

Sender = tuple[str, str]
"""Service and shard."""


@dataclass(slots=True)
class _Bind:
    """A bind that was reported and does not show on STATE."""

    sender: Sender
    sequence: int
    """Of the outcome that reports it; 0 until that is stored."""
    pod: AssumedPod
    shown_at: int = 0
    """The version with which the watch showed the pod placed, or gone; 0 until it does."""


class AnsweredLog:
    """The outcomes that count. Feed it to a `LogReader` of OUTCOME."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # As a queue that can be searched: a dict keeps the order of insertion.
        self._ids: dict[str, None] = {}
        self._versions: dict[Sender, dict[str, int]] = {}
        self._binds: dict[str, _Bind] = {}
        self._shown: deque[tuple[int, str]] = deque()
        """Binds that show, by version; they are forgotten when STATE has reached it."""
        self._under_way: dict[str, int] = {}
        self._log = OutcomeLog()
        self._own: Epoch | None = None
        self.incarnation = ""
        self._sequence = 0
        self._is_caught_up = False

    def __contains__(self, intent_id: str) -> bool:
        return intent_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def knows_all(self, incarnation: str, last_sequence: int) -> bool:
        """Is every answer up to this one of this log known here?"""
        if not self._is_caught_up or incarnation != self.incarnation:
            return False
        return self._sequence >= last_sequence

    def turn_of(self, service: str) -> Epoch | None:
        """Whose answers count for a service, as far as the log was read."""
        return self._log.turn_of(service)

    def begin_turn(self, gateway: Epoch) -> None:
        """From now on we answer ourselves, in this name."""
        self._own = gateway

    # Versions.

    def versions(self, sender: Sender) -> dict[str, str]:
        """Kind → the highest version that was written for this sender."""
        return {kind: str(version) for kind, version in self._versions.get(sender, {}).items()}

    def forget_beyond(self, kind: str, version: int) -> None:
        """The API server was restored: no version of this kind beyond this one was ever written."""
        for versions in self._versions.values():
            if versions.get(kind, 0) > version:
                versions[kind] = version

    # Binds.

    def is_uncertain(self, uid: str) -> bool:
        """May a request to bind this pod still be under way?"""
        bind = self._binds.get(uid)
        return bind is not None and bind.pod.uncertain and not bind.shown_at

    def assumed(self, sender: Sender) -> tuple[AssumedPod, ...]:
        """Pods that were bound for this sender, or may have been, and do not show on STATE."""
        return tuple(bind.pod for bind in self._binds.values() if bind.sender == sender)

    @contextmanager
    def binding(self, shown: dict[str, int]) -> Generator[None]:
        """These pods are being bound, and may show on a node before that is answered.

        By uid, with the version in which they show already, or 0.
        """
        self._under_way.update(shown)
        try:
            yield
        finally:
            for uid in shown:
                self._under_way.pop(uid, None)

    def saw_pod(self, uid: str, version: int) -> None:
        """The watch has shown this pod placed, or gone."""
        if uid in self._under_way:
            self._under_way[uid] = version
        bind = self._binds.get(uid)
        if bind is not None and not bind.shown_at:
            bind.shown_at = version
            self._shown.append((version, uid))

    def shown_up_to(self, position: int) -> int:
        """The sequence up to which every reported bind shows when STATE is at this position.

        What does show is forgotten.
        """
        while self._shown and self._shown[0][0] <= position:
            self._forget_bind(self._shown.popleft()[1], at=position)
        # The oldest stands first; one that the log has not brought back is beyond all it brought.
        oldest = next(iter(self._binds.values()), None)
        return self._sequence if oldest is None or not oldest.sequence else oldest.sequence - 1

    def showed_before(self, incarnation: str, sequence: int) -> None:
        """A leader noted that every bind reported up to here, in this log, shows on STATE."""
        if incarnation != self.incarnation:
            return
        for uid in [uid for uid, one in self._binds.items() if 0 < one.sequence <= sequence]:
            del self._binds[uid]

    def _forget_bind(self, uid: str, *, at: int) -> None:
        """Unless it was reported once more, and that does not show yet."""
        bind = self._binds.get(uid)
        if bind is not None and 0 < bind.shown_at <= at:
            del self._binds[uid]

    def unseen(self) -> list[AssumedPod]:
        """All binds that do not show on STATE, as far as is known."""
        return [bind.pod for bind in self._binds.values() if not bind.shown_at]

    # What is answered.

    def answered(self, outcome: AnyOutcome) -> None:
        """An outcome of our own is stored. When the log brings it back, only its place is news."""
        self._note(outcome)
        if isinstance(outcome, GangBound):
            for pod in outcome.pods:
                self._note_bind(outcome, pod, 0)

    def _read(self, outcome: AnyOutcome, sequence: int) -> None:
        self._note(outcome)
        if not isinstance(outcome, GangBound):
            return
        for pod in outcome.pods:
            if outcome.gateway != self._own:
                self._note_bind(outcome, pod, sequence)
            elif pod.uid in self._binds:
                self._binds[pod.uid].sequence = sequence

    def _note(self, outcome: AnyOutcome) -> None:
        self._ids[outcome.intent_id] = None
        while len(self._ids) > self._remembered:
            del self._ids[next(iter(self._ids))]
        if isinstance(outcome, Applied) and outcome.resource_version:
            sender = (outcome.service, outcome.shard)
            versions = self._versions.setdefault(sender, {})
            version = int(outcome.resource_version)
            versions[outcome.kind] = max(version, versions.get(outcome.kind, 0))

    def _note_bind(self, outcome: GangBound, pod: PodBound, sequence: int) -> None:
        known = self._binds.pop(pod.uid, None)
        if not (pod.bound or pod.uncertain):
            return  # an answer that is certain settles what was not
        assumed = AssumedPod(outcome.namespace, pod.name, pod.uid, pod.node, pod.uncertain)
        shown_at = self._under_way.get(pod.uid, 0) if known is None else known.shown_at
        sender = (outcome.service, outcome.shard)
        self._binds[pod.uid] = _Bind(sender, sequence, assumed, shown_at)
        if shown_at and known is None:
            self._shown.append((shown_at, pod.uid))

    # The LogListener protocol.

    def attach(self, position: LogPosition) -> int:
        self._is_caught_up = False
        if position.incarnation != self.incarnation:
            # What the log does not say has not ended: the sender never heard of it either.
            self._ids.clear()
            self._versions.clear()
            self._binds.clear()
            self._shown.clear()
            self._log.clear()
            self.incarnation = position.incarnation
            self._sequence = max(0, position.last_sequence - self._remembered)
        self._sequence = min(self._sequence, position.last_sequence)
        return self._sequence + 1

    def apply(self, message: LogMessage) -> None:
        self._sequence = max(self._sequence, message.sequence)
        try:
            outcome = self._log.counting(codec.outcomes.decode(message.payload))
        except Undecodable:
            return  # whoever the answer was for puts it aside
        if outcome is not None:
            self._read(outcome, message.sequence)

    def caught_up(self) -> None:
        self._is_caught_up = True
