"""The intent book against a bus, a gateway and a view that do everything in any order.

The bus loses messages and acknowledgements, and stores a repetition once. The gateway answers
what is stored, each intent once, in any order among keys; answers come before acknowledgements,
and twice. The view's positions move later. Whatever happens, each intent is told exactly once,
not before its position, and those of one key were stored in the order in which they were asked.
"""

import itertools
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.contracts.intents import AnyIntent, BindGang, CreateObject, PatchObject, PodBinding
from stromboli.contracts.outcomes import AnyOutcome, Applied, Reason, refused
from stromboli.runtime.bus.runs import run_of
from stromboli.runtime.intent_book import MOST_OPEN_PER_KEY, Asked, IntentBook
from stromboli.testkit.effort import examples

KEYS = st.sampled_from(["a", "b", "c"])
SORTS = st.sampled_from(["create", "patch", "gang"])


@dataclass
class Fate:
    """What has become of one intent."""

    asked: Asked
    order: int
    stored_at: int = -1
    answered: bool = False
    version: int = 0
    told: int = 0


class BookMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.book = IntentBook()
        self.fates: dict[str, Fate] = {}
        self.on_wire: list[Asked] = []
        """Sent, and the bus has not said how it went."""
        self.spoken: list[AnyOutcome] = []
        self.stored = 0
        self.version = 0
        self.seen = 0

    # The view.

    def position(self, kind: str) -> int:
        assert kind in {"pod", "vcjob"}
        return self.seen

    def shows(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        raise AssertionError("nothing is deleted here")

    # What happens.

    @rule(key=KEYS, sort=SORTS, count=st.integers(1, 4))
    def the_core_asks(self, key: str, sort: str, count: int) -> None:
        gang = len(self.fates)
        for number in range(count):
            intent = _intent(f"{len(self.fates)}", key, sort, gang, number, count)
            asked = Asked(intent, intent.id, payload=b"x")
            self.fates[intent.id] = Fate(asked, len(self.fates))
            self.book.ask(asked)

    @rule()
    def what_may_go_is_sent(self) -> None:
        for asked in self.book.to_send(self.now):
            fate = self.fates[asked.id]
            assert not fate.answered, "what is answered is not sent again"
            assert asked not in self.on_wire, "what has not failed is not sent again"
            assert asked.payload == b"x"
            self.on_wire.append(asked)

    @precondition(lambda self: self.on_wire)
    @rule(data=st.data(), arrives=st.booleans(), acknowledged=st.booleans())
    def the_bus_does_something(
        self, data: st.DataObject, arrives: bool, acknowledged: bool
    ) -> None:
        asked = data.draw(st.sampled_from(self.on_wire))
        self.on_wire.remove(asked)
        fate = self.fates[asked.id]
        if arrives and fate.stored_at < 0:
            fate.stored_at = self.stored
            self.stored += 1
        if fate.stored_at >= 0 and acknowledged:
            self.book.stored(asked, self.now)
        else:
            self.book.failed(asked, self.now)

    @rule(data=st.data(), does=st.booleans())
    def the_gateway_answers(self, data: st.DataObject, does: bool) -> None:
        """In order per key; a run, or a gang, side by side: any of them may be first."""
        waiting = [f for f in self.fates.values() if f.stored_at >= 0 and not f.answered]
        if not waiting:
            return
        fate = data.draw(st.sampled_from(waiting))
        intent = fate.asked.intent
        fate.answered = True
        if does and not isinstance(intent, BindGang):
            self.version += 1
            fate.version = self.version
            outcome: AnyOutcome = _applied(intent, str(self.version))
        else:
            outcome = refused(intent, Reason.STALE, "no", at=0.0)
        self.spoken.append(outcome)
        self.book.heard(outcome, self.now)

    @precondition(lambda self: self.spoken)
    @rule(data=st.data())
    def an_answer_is_heard_twice(self, data: st.DataObject) -> None:
        assert not self.book.heard(data.draw(st.sampled_from(self.spoken)), self.now)

    @rule(by=st.integers(0, 3))
    def the_view_moves(self, by: int) -> None:
        self.seen = min(self.version, self.seen + by)

    @rule()
    def the_core_is_told(self) -> None:
        for asked, outcome in self.book.to_tell(self):
            fate = self.fates[asked.id]
            assert outcome.intent_id == asked.id
            assert fate.answered
            assert fate.version <= self.seen, "not before its position"
            fate.told += 1

    @rule(seconds=st.sampled_from([0.05, 1.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # What must hold at any time.

    @invariant()
    def nothing_is_told_twice(self) -> None:
        assert all(fate.told <= 1 for fate in self.fates.values())

    @invariant()
    def the_unanswered_are_in_the_book(self) -> None:
        assert len(self.book) == sum(not fate.answered for fate in self.fates.values())

    @invariant()
    def intents_of_a_key_are_stored_in_their_order(self) -> None:
        for key in ("a", "b", "c"):
            fates = [f for f in self.fates.values() if f.asked.intent.key == key]
            stored = sorted((f for f in fates if f.stored_at >= 0), key=lambda f: f.stored_at)
            for earlier, later in itertools.pairwise(stored):
                if earlier.order > later.order:
                    assert _are_beside(later.asked.intent, earlier.asked.intent)
            for waiting in (f for f in fates if f.stored_at < 0):
                behind = [f for f in stored if f.order > waiting.order]
                assert all(_are_beside(waiting.asked.intent, f.asked.intent) for f in behind)

    @invariant()
    def no_key_has_too_much_open(self) -> None:
        for key in ("a", "b", "c"):
            of_key = [f for f in self.fates.values() if f.asked.intent.key == key]
            small = [f for f in of_key if not isinstance(f.asked.intent, BindGang)]
            assert sum(f.stored_at >= 0 and not f.answered for f in small) <= MOST_OPEN_PER_KEY

    def teardown(self) -> None:
        """Once all faults are over, everything is told."""
        for _ in range(len(self.fates) + 1):
            self.now += 2.0
            self.what_may_go_is_sent()
            for asked in self.on_wire:
                fate = self.fates[asked.id]
                if fate.stored_at < 0:
                    fate.stored_at = self.stored
                    self.stored += 1
                self.book.stored(asked, self.now)
            self.on_wire.clear()
        for fate in self.fates.values():
            if not fate.answered:
                fate.answered = True
                assert self.book.heard(
                    refused(fate.asked.intent, Reason.STALE, "no", at=0.0), self.now
                )
        self.seen = self.version
        self.the_core_is_told()

        assert [fate.asked.id for fate in self.fates.values() if fate.told != 1] == []
        assert len(self.book) == 0
        assert self.book.overdue(self.now + 1e6) == ""


def _intent(number: str, key: str, sort: str, gang: int, part: int, parts: int) -> AnyIntent:
    if sort == "create":
        return CreateObject(
            id=number, key=key, service="s", kind="pod", name=f"p{int(number) % 3}", manifest=b""
        )
    if sort == "patch":
        return PatchObject(
            id=number, key=key, service="s", kind="vcjob", name="j", uid="u", patch=b""
        )
    return BindGang(
        id=number,
        key=key,
        service="s",
        name=f"g{gang}",
        attempt=f"g{gang}",
        part=part,
        parts=parts,
        binds=(PodBinding("p", "u", "n"),),
    )


def _applied(intent: AnyIntent, version: str) -> Applied:
    return Applied(
        intent_id=intent.id,
        service="s",
        verb=intent.verb,
        kind=intent.kind,
        key=intent.key,
        name="x",
        uid="u",
        resource_version=version,
    )


def _are_beside(one: AnyIntent, other: AnyIntent) -> bool:
    """May these two be stored in any order?"""
    if isinstance(one, BindGang) and isinstance(other, BindGang):
        return one.attempt == other.attempt
    first, second = run_of(one), run_of(other)
    if first is None or second is None:
        return False
    return first.sort == second.sort and first.place != second.place


BookMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=60, deadline=None
)
test_everything_asked_is_told_once_and_in_order = BookMachine.TestCase
