"""What a core has asked for and not yet seen: intents with deadlines, and its own writes.

Pure. An intent leaves this book by its OUTCOME, by the fact it wanted, or by its deadline; in
the last case the core decides again, with the next attempt number in the intent's id. After
an outcome, the key stays closed until the view shows the write: a core never decides on a
view that is older than what it has done itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from stromboli.contracts.intents import Envelope, Verb
from stromboli.contracts.outcomes import AnyOutcome, Applied, GangBound, Refused

RvOf = Callable[[str, str, str], tuple[str, str] | None]
"""(kind, namespace, name) -> (uid, resourceVersion) as the view has it, or None."""


@dataclass(slots=True, frozen=True)
class _OwnWrite:
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    """Empty: the object is gone, and the view must not show it any more."""
    at: float


@dataclass(slots=True)
class Outstanding:
    """The book of one core."""

    grace_s: float = 2.0
    """An intent that expires at the gateway is still answered; wait this much longer."""
    closed_at_most_s: float = 10.0
    """A write that was undone at once never shows in the view; the key opens after this."""
    watched: frozenset[str] | None = None
    """Kinds that the view has: a write to another never shows there. None stands for all."""
    _asked: dict[str, Envelope] = field(default_factory=dict)
    _by_key: dict[str, set[str]] = field(default_factory=dict)
    _writes: dict[str, list[_OwnWrite]] = field(default_factory=dict)
    _attempts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, intent: Envelope) -> None:
        self._asked[intent.id] = intent
        self._by_key.setdefault(intent.key, set()).add(intent.id)

    def is_asked(self, intent_id: str) -> bool:
        return intent_id in self._asked

    def has_open(self, key: str) -> bool:
        """Is anything asked for this key that has not ended?"""
        return key in self._by_key

    def is_closed(self, key: str) -> bool:
        """Is anything done for this key that the view did not show when last looked at?"""
        return key in self._writes

    def attempt(self, key: str) -> int:
        """Goes into the id of the key's next intents; grows when something was not answered."""
        return self._attempts.get(key, 1)

    def answered(self, outcome: AnyOutcome, *, now: float) -> Envelope | None:
        """Cross an intent off; None if it is not ours or was crossed off before."""
        intent = self._forget(outcome.intent_id)
        if intent is None:
            return None
        if isinstance(outcome, Applied):
            # An eviction may also leave nothing behind: then there is no version to wait for.
            ended = outcome.verb in {Verb.DELETE, Verb.EVICT}
            shows = self.watched is None or outcome.kind in self.watched
            if shows and outcome.uid and (outcome.resource_version or ended):
                self._writes.setdefault(intent.key, []).append(
                    _OwnWrite(
                        outcome.kind,
                        outcome.namespace,
                        outcome.name,
                        outcome.uid,
                        outcome.resource_version,
                        now,
                    )
                )
        elif _must_ask_anew(outcome):
            self._attempts[intent.key] = self.attempt(intent.key) + 1
        return intent

    def unanswered(self, intent: Envelope) -> bool:
        """Cross off what nobody answered; False if it was crossed off before."""
        if self._forget(intent.id) is None:
            return False
        self._attempts[intent.key] = self.attempt(intent.key) + 1
        return True

    def overdue(self, now: float) -> list[Envelope]:
        """Take out what has had neither outcome nor fact in time: decide about it again."""
        late = [i for i in self._asked.values() if i.not_after + self.grace_s < now]
        for intent in late:
            self._forget(intent.id)
            self._attempts[intent.key] = self.attempt(intent.key) + 1
        return late

    def may_decide(self, key: str, resource_version_of: RvOf, *, now: float) -> bool:
        """Does the view show everything that was done for this key?"""
        writes = self._writes.get(key)
        if not writes:
            return True
        oldest = now - self.closed_at_most_s
        unseen = [
            write for write in writes if write.at > oldest and not _seen(write, resource_version_of)
        ]
        if unseen:
            self._writes[key] = unseen
            return False
        del self._writes[key]
        return True

    def ended(self, key: str, uid: str) -> None:
        """The view showed the end of this object: what was written to it before is seen."""
        writes = [write for write in self._writes.pop(key, ()) if write.uid != uid]
        if writes:
            self._writes[key] = writes

    def forget_key(self, key: str) -> None:
        """The root owner is gone: nothing about it matters any more."""
        for intent_id in tuple(self._by_key.get(key, ())):
            self._forget(intent_id)
        self._writes.pop(key, None)
        self._attempts.pop(key, None)

    def _forget(self, intent_id: str) -> Envelope | None:
        intent = self._asked.pop(intent_id, None)
        if intent is not None:
            ids = self._by_key[intent.key]
            ids.discard(intent_id)
            if not ids:
                del self._by_key[intent.key]
        return intent


def _must_ask_anew(outcome: AnyOutcome) -> bool:
    """Was something not done? Then the same wish needs another id: this one is answered."""
    match outcome:
        case Refused():
            return True
        case GangBound():
            return not all(pod.bound for pod in outcome.pods)
        case _:
            return False


def _seen(write: _OwnWrite, resource_version_of: RvOf) -> bool:
    known = resource_version_of(write.kind, write.namespace, write.name)
    if not write.resource_version:
        return known is None or known[0] != write.uid
    if known is None:
        return False  # not there yet, or gone again: time will tell
    # The version decides even if the uid is another: a newer one is a successor, but an older
    # one is the predecessor, whose end has not reached the view.
    return int(known[1]) >= int(write.resource_version)
