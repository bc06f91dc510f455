"""What was answered, as OUTCOME tells it: the gateway's memory of what became of intents.

Three questions are answered from it. Has this intent ended, so that one which comes again is not
applied again? An acknowledgement can be lost with the connection, and a sender can repeat itself
when the server's window for duplicates is over. Which versions were written for a service, so
that its next leader knows what its view must have reached? And of which pods is it not certain
whether they were bound?

OUTCOME is read along, also while standing by. The newest answers are remembered. Pure: no I/O.
"""

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.errors import Undecodable
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    AssumedPod,
    GangBound,
    Outcome,
    OutcomeLog,
    PodBound,
)
from stromboli.runtime.bus.reader import LogMessage, LogPosition

REMEMBERED = 100_000

Sender = tuple[str, str]
"""Service and shard."""


class AnsweredLog:
    """The outcomes that count. Feed it to a `LogReader` of OUTCOME."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # As a queue that can be searched: a dict keeps the order of insertion.
        self._ids: dict[str, None] = {}
        self._versions: dict[Sender, dict[str, int]] = {}
        self._uncertain: dict[str, tuple[Sender, AssumedPod]] = {}
        """By uid of the pod."""
        self._log = OutcomeLog()
        self._incarnation = ""
        self._sequence = 0
        self._is_caught_up = False

    def __contains__(self, intent_id: str) -> bool:
        return intent_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def knows_all(self, incarnation: str, last_sequence: int) -> bool:
        """Is every answer up to this one of this log known here?"""
        if not self._is_caught_up or incarnation != self._incarnation:
            return False
        return self._sequence >= last_sequence

    def turn_of(self, service: str) -> Epoch | None:
        """Whose answers count for a service, as far as the log was read."""
        return self._log.turn_of(service)

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
        return uid in self._uncertain

    def assumed(self, sender: Sender) -> tuple[AssumedPod, ...]:
        """Pods that may have been bound for this sender, or may still be."""
        return tuple(pod for whose, pod in self._uncertain.values() if whose == sender)

    def settled(self, uid: str) -> None:
        """The watch has shown this pod on a node, or gone."""
        self._uncertain.pop(uid, None)

    # What is answered.

    def note(self, outcome: AnyOutcome) -> None:
        """It is stored and counts.

        Of our own we hear twice, from the server and from the log. In between, the watch or a
        newer answer may have settled what this one left open.
        """
        if outcome.intent_id in self._ids:
            return
        self._ids[outcome.intent_id] = None
        while len(self._ids) > self._remembered:
            del self._ids[next(iter(self._ids))]
        match outcome:
            case Applied() if outcome.resource_version:
                self._note_version(outcome, outcome.resource_version)
            case GangBound():
                if outcome.resource_version:
                    self._note_version(outcome, outcome.resource_version)
                for pod in outcome.pods:
                    self._note_bind(outcome, pod)
            case _:
                pass

    def _note_version(self, outcome: Outcome, version: str) -> None:
        versions = self._versions.setdefault((outcome.service, outcome.shard), {})
        versions[outcome.kind] = max(int(version), versions.get(outcome.kind, 0))

    def _note_bind(self, outcome: GangBound, pod: PodBound) -> None:
        self._uncertain.pop(pod.uid, None)  # an answer that is certain settles what was not
        if pod.uncertain:
            assumed = AssumedPod(outcome.namespace, pod.name, pod.uid, pod.node)
            self._uncertain[pod.uid] = ((outcome.service, outcome.shard), assumed)
            while len(self._uncertain) > self._remembered:
                del self._uncertain[next(iter(self._uncertain))]

    # The LogListener protocol.

    def attach(self, position: LogPosition) -> int:
        self._is_caught_up = False
        if position.incarnation != self._incarnation:
            # What the log does not say has not ended: the sender never heard of it either.
            self._ids.clear()
            self._versions.clear()
            self._uncertain.clear()
            self._log.clear()
            self._incarnation = position.incarnation
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
            self.note(outcome)

    def caught_up(self) -> None:
        self._is_caught_up = True
