"""The promises of the intent book one by one; the model tries them all at once."""

from dataclasses import dataclass, field

import pytest

from stromboli.contracts.intents import (
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    PatchObject,
    PodBinding,
    Verb,
)
from stromboli.contracts.outcomes import AnyOutcome, Applied, GangBound, Reason, Refused, refused
from stromboli.runtime.intent_book import (
    MOST_OPEN,
    MOST_OPEN_PER_KEY,
    SILENT_KEY_S,
    SILENT_S,
    Asked,
    IntentBook,
)

KEY = "vcjob/ns/job"


def creation(name: str, *, key: str = KEY) -> CreateObject:
    return CreateObject(
        id=f"create-{name}",
        key=key,
        service="controllers",
        kind="pod",
        namespace="ns",
        name=name,
        manifest=b"{}",
    )


def patch(name: str, *, key: str = KEY) -> PatchObject:
    return PatchObject(
        id=f"patch-{name}",
        key=key,
        service="controllers",
        kind="vcjob",
        namespace="ns",
        name=name,
        uid="u",
        patch=b"{}",
    )


def deletion(name: str) -> DeleteObject:
    return DeleteObject(
        id=f"delete-{name}",
        key=KEY,
        service="controllers",
        kind="pod",
        namespace="ns",
        name=name,
        uid="u",
    )


def bind(gang: str, part: int, parts: int) -> BindGang:
    return BindGang(
        id=f"bind-{gang}-{part}",
        key=KEY,
        service="scheduler",
        namespace="ns",
        name=gang,
        attempt=gang,
        part=part,
        parts=parts,
        binds=(PodBinding(f"p{part}", "u", "n"),),
    )


def applied(intent: AnyIntent, *, version: str = "", uid: str = "u") -> Applied:
    assert isinstance(intent, CreateObject | PatchObject | DeleteObject)
    return Applied(
        intent_id=intent.id,
        service=intent.service,
        verb=intent.verb,
        kind=intent.kind,
        key=intent.key,
        namespace=intent.namespace,
        name=intent.name,
        uid=uid,
        resource_version=version,
    )


@dataclass
class Eyes:
    """What is in view."""

    positions: dict[str, int] = field(default_factory=dict[str, int])
    objects: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def position(self, kind: str) -> int:
        return self.positions.get(kind, 0)

    def shows(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        assert (kind, namespace) == ("pod", "ns")
        return (name, uid) in self.objects


@dataclass
class Keeping:
    """A book, and the time."""

    book: IntentBook = field(default_factory=IntentBook)
    eyes: Eyes = field(default_factory=Eyes)
    now: float = 1000.0
    wire: dict[str, Asked] = field(default_factory=dict[str, Asked])

    def ask(self, *intents: AnyIntent) -> list[str]:
        for intent in intents:
            self.book.ask(Asked(intent, f"wish-{intent.id}", payload=b"bytes"))
        return self.sent()

    def sent(self) -> list[str]:
        """What goes on the wire now."""
        sent = list(self.book.to_send(self.now))
        self.wire |= {asked.id: asked for asked in sent}
        return [asked.id for asked in sent]

    def acked(self, *ids: str) -> list[str]:
        for one in ids:
            self.book.stored(self.wire[one], self.now)
        return self.sent()

    def failed(self, one: str) -> None:
        self.book.failed(self.wire[one], self.now)

    def heard(self, outcome: AnyOutcome) -> bool:
        return self.book.heard(outcome, self.now)

    def told(self) -> list[str]:
        return [asked.wish for asked, _ in self.book.to_tell(self.eyes)]


@pytest.fixture
def keeping() -> Keeping:
    return Keeping()


def test_what_comes_behind_waits_for_the_acknowledgement_and_other_keys_do_not(keeping: Keeping):
    other = patch("other", key="vcjob/ns/other")
    assert keeping.ask(patch("a"), patch("b"), other) == ["patch-a", "patch-other"]

    assert keeping.acked("patch-a") == ["patch-b"]


def test_a_run_is_on_the_wire_together_and_what_is_behind_it_waits_for_all(keeping: Keeping):
    sent = keeping.ask(creation("a"), creation("b"), creation("a"), patch("job"), creation("c"))
    assert sent == ["create-a", "create-b"], "two about one object keep their order"

    assert keeping.acked("create-b") == []
    assert keeping.acked("create-a") == ["create-a"]


def test_the_parts_of_a_gang_are_on_the_wire_together(keeping: Keeping):
    parts = [bind("g", number, 3) for number in range(3)]
    sent = keeping.ask(*parts, bind("h", 0, 1))

    assert sent == ["bind-g-0", "bind-g-1", "bind-g-2"]
    assert keeping.acked(*sent) == ["bind-h-0"]


def test_what_was_not_acknowledged_is_sent_again_later_and_ever_later(keeping: Keeping):
    keeping.ask(patch("a"), patch("b"))
    pauses: list[float] = []
    for _ in range(6):
        keeping.failed("patch-a")
        assert keeping.sent() == []
        due = keeping.book.next_retry()
        assert due is not None
        pauses.append(round(due - keeping.now, 3))
        keeping.now = due
        assert keeping.sent() == ["patch-a"]
        assert keeping.wire["patch-a"].payload == b"bytes"

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert keeping.acked("patch-a") == ["patch-b"]


def test_an_outcome_proves_that_it_is_stored(keeping: Keeping):
    keeping.ask(patch("a"), patch("b"))
    keeping.failed("patch-a")
    assert keeping.heard(applied(patch("a")))

    assert keeping.sent() == ["patch-b"]
    keeping.now += 5
    assert keeping.acked("patch-a") == [], "nor is it sent again"
    assert keeping.told() == ["wish-patch-a"]


def test_an_outcome_is_held_back_until_its_version_is_in_view(keeping: Keeping):
    keeping.ask(creation("a"), creation("b"))
    keeping.heard(applied(creation("a"), version="10"))
    keeping.heard(applied(creation("b"), version="9"))
    keeping.eyes.positions = {"pod": 8, "vcjob": 100}
    assert keeping.told() == []

    keeping.eyes.positions["pod"] = 9
    assert keeping.told() == ["wish-create-b"]
    keeping.eyes.positions["pod"] = 12
    assert keeping.told() == ["wish-create-a"]
    assert keeping.told() == []


def test_versions_are_compared_as_numbers(keeping: Keeping):
    keeping.ask(creation("a"))
    keeping.heard(applied(creation("a"), version="10"))
    keeping.eyes.positions = {"pod": 9}

    assert keeping.told() == []


def test_a_deletion_without_a_version_waits_until_the_object_is_out_of_view(keeping: Keeping):
    keeping.ask(deletion("a"), deletion("b"))
    keeping.eyes.objects = {("a", "u"), ("b", "another")}
    keeping.heard(applied(deletion("a")))
    keeping.heard(applied(deletion("b")))
    assert keeping.told() == ["wish-delete-b"]

    keeping.eyes.objects.clear()
    assert keeping.told() == ["wish-delete-a"]


def bound(gang: BindGang, version: str = "") -> GangBound:
    return GangBound(
        intent_id=gang.id,
        service="scheduler",
        verb=Verb.BIND,
        kind="pod",
        key=KEY,
        namespace="ns",
        name="g",
        attempt="g",
        part=0,
        parts=1,
        pods=(),
        resource_version=version,
    )


def test_a_bind_is_held_back_until_its_pods_are_in_view(keeping: Keeping):
    gang = bind("g", 0, 1)
    keeping.ask(gang)
    keeping.heard(bound(gang, "7"))
    assert keeping.told() == []

    keeping.eyes.positions = {"pod": 7}
    assert keeping.told() == ["wish-bind-g-0"]


def test_where_nothing_was_bound_and_what_was_refused_waits_for_nothing(keeping: Keeping):
    gang = bind("g", 0, 1)
    keeping.ask(gang)
    keeping.heard(bound(gang))
    keeping.ask(patch("a"))
    keeping.heard(refused(patch("a"), Reason.STALE, "no", at=0.0))

    assert keeping.told() == ["wish-bind-g-0", "wish-patch-a"]


def test_what_nobody_asked_for_is_none_of_its_business(keeping: Keeping):
    keeping.ask(patch("a"))
    assert not keeping.heard(applied(patch("of another life")))
    assert keeping.heard(applied(patch("a")))
    assert not keeping.heard(applied(patch("a"))), "nor a second answer"

    assert keeping.told() == ["wish-patch-a"]


def test_a_wish_stands_until_the_core_has_heard_of_it(keeping: Keeping):
    keeping.ask(creation("a"))
    keeping.heard(applied(creation("a"), version="5"))
    assert keeping.book.is_wished("wish-create-a")

    keeping.eyes.positions = {"pod": 5}
    keeping.told()
    assert not keeping.book.is_wished("wish-create-a")


def test_what_can_never_be_stored_is_answered_here(keeping: Keeping):
    keeping.ask(creation("huge"), patch("b"))
    no = refused(creation("huge"), Reason.INVALID, "too large", at=0.0)
    keeping.book.refuse(keeping.wire["create-huge"], no)

    assert keeping.sent() == ["patch-b"]
    assert keeping.told() == ["wish-create-huge"]


def test_one_key_has_no_more_open_than_it_may(keeping: Keeping):
    names = [str(number) for number in range(MOST_OPEN_PER_KEY + 5)]
    sent = keeping.ask(*(creation(name) for name in names), creation("x", key="vcjob/ns/other"))
    assert len(sent) == MOST_OPEN_PER_KEY + 1
    assert "create-x" in sent

    assert keeping.acked(*sent[:10]) == [], "stored is open still"
    keeping.heard(applied(creation("0")))
    keeping.heard(applied(creation("63")))
    assert keeping.sent() == ["create-64", "create-65"]


def test_the_parts_of_a_gang_may_be_more(keeping: Keeping):
    parts = MOST_OPEN_PER_KEY + 5

    assert len(keeping.ask(*(bind("g", number, parts) for number in range(parts)))) == parts


def test_no_more_is_on_the_bus_than_may_be(keeping: Keeping):
    keys = [f"vcjob/ns/{number}" for number in range(MOST_OPEN + 10)]
    sent = keeping.ask(*(patch(key, key=key) for key in keys))
    assert len(sent) == MOST_OPEN
    assert keeping.book.is_full

    for key in keys[:11]:
        keeping.heard(applied(patch(key, key=key)))
    assert len(keeping.sent()) == 10
    assert not keeping.book.is_full


def test_a_bus_that_takes_nothing_ends_the_turn(keeping: Keeping):
    keeping.ask(patch("a"))
    keeping.now += 59
    keeping.failed("patch-a")
    assert keeping.book.overdue(keeping.now) == ""
    keeping.now += 1

    assert "not acknowledged" in keeping.book.overdue(keeping.now)


def test_a_gateway_that_is_silent_ends_the_turn(keeping: Keeping):
    keeping.ask(patch("a"))
    keeping.now += 50
    keeping.acked("patch-a")
    keeping.now += SILENT_S - 1
    assert keeping.book.overdue(keeping.now) == ""
    keeping.now += 1

    assert "no answer from the gateway" in keeping.book.overdue(keeping.now)


def test_a_key_that_stays_silent_ends_the_turn(keeping: Keeping):
    keeping.acked(*keeping.ask(patch("lost"), patch("x", key="vcjob/ns/x")))
    until = keeping.now + SILENT_KEY_S
    number = 0
    while keeping.now < until - 10:
        keeping.now += 10
        number += 1
        assert keeping.book.overdue(keeping.now) == ""
        keeping.heard(applied(patch("x" if number == 1 else "nothing", key="vcjob/ns/x")))
    keeping.now = until

    assert f"about {KEY}" in keeping.book.overdue(keeping.now)


def test_where_nothing_is_open_nothing_is_overdue(keeping: Keeping):
    keeping.acked(*keeping.ask(patch("a")))
    keeping.heard(applied(patch("a"), version="99"))
    keeping.now += 10_000

    assert keeping.book.overdue(keeping.now) == ""
    assert isinstance(refused(patch("a"), Reason.STALE, "", at=0.0), Refused)
