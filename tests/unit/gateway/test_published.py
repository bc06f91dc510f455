"""What the gateway remembers of STATE: its own writes, other writers', and rubbish."""

from dataclasses import dataclass, field

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.facts import (
    TOMBSTONE_LIFE_S,
    Fact,
    KindSynced,
    ObjectGone,
    ObjectSeen,
)
from stromboli.contracts.streams import RESUME_LIMIT_S
from stromboli.gateway.published import Published
from stromboli.runtime.bus.reader import LogMessage, LogPosition

A = ("ns", "a")


def packed(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


def seen(name: str = "a", *, uid: str = "u1", version: str = "1", value: object = 1) -> ObjectSeen:
    return ObjectSeen(
        kind="pod",
        namespace="ns",
        name=name,
        uid=uid,
        resource_version=version,
        projection=packed(value),
    )


def gone(name: str = "a", *, uid: str = "u1", version: str = "9") -> ObjectGone:
    return ObjectGone(
        kind="pod",
        namespace="ns",
        name=name,
        uid=uid,
        resource_version=version,
        projection=packed(1),
    )


def marker(kind: str = "pod", incarnation: str = "log", version: str = "5") -> KindSynced:
    return KindSynced(kind=kind, incarnation=incarnation, resource_version=version, count=1)


@dataclass
class Memory:
    """What stands, and which kinds it wants compared anew."""

    foreign: list[str] = field(default_factory=list[str])
    published: Published = field(init=False)
    sequence: int = 0
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.published = Published(self.foreign.append, monotonic=lambda: self.now_s)

    def attach(self, incarnation: str = "log", last: int = 10**6, away_s: float = 0.0) -> int:
        return self.published.attach(LogPosition(incarnation, last, away_s))

    def reads(self, fact: Fact | bytes, *, on: str = "vc.state.pod.ns.a", sequence: int = 0) -> int:
        self.sequence = sequence or self.sequence + 1
        payload = fact if isinstance(fact, bytes) else codec.encode(fact)
        subject = on if isinstance(fact, bytes) else fact.subject()
        self.published.apply(LogMessage(subject, self.sequence, payload, {}, 0, 0.0))
        return self.sequence


def living(memory: Memory) -> list[tuple[str, str]]:
    expectations = memory.published.expectations("pod")
    return [key for key, standing in expectations.items() if not standing.gone]


@pytest.fixture
def memory() -> Memory:
    """It has read an empty log to its end."""
    memory = Memory()
    memory.attach()
    memory.published.caught_up()
    return memory


# What stands, and what will.


def test_the_newest_version_that_stands_may_be_that_of_an_end(memory: Memory):
    assert memory.published.newest_version("pod") == 0

    memory.reads(seen(version="9"))
    memory.reads(gone("b", version="10"))
    memory.published.begin(seen("c", version="11"))

    assert memory.published.newest_version("pod") == 10
    assert memory.published.newest_version("node") == 0


def test_what_was_read_from_the_log_stands(memory: Memory):
    memory.reads(seen(version="3"))
    standing = memory.published.standing("pod", A)

    assert standing is not None
    assert (standing.sequence, standing.uid, standing.resource_version) == (1, "u1", "3")
    assert not standing.gone
    assert memory.published.last_sequence(seen()) == 1
    assert memory.published.last_sequence(seen("b")) == 0
    assert living(memory) == [A]


def test_what_is_on_its_way_is_expected_but_does_not_stand_yet(memory: Memory):
    memory.reads(seen(version="3"))
    memory.published.begin(seen(version="4"))

    expected, standing = memory.published.expected("pod", A), memory.published.standing("pod", A)
    assert expected is not None
    assert standing is not None
    assert (expected.resource_version, standing.resource_version) == ("4", "3")
    assert memory.published.is_in_flight(seen().subject())


def test_the_newest_of_several_on_their_way_is_expected_until_the_last_has_arrived(memory: Memory):
    first, second = seen(version="4"), gone(version="5")
    memory.published.begin(first)
    memory.published.begin(second)
    memory.published.stands(first, 1)

    expected = memory.published.expected("pod", A)
    assert expected is not None
    assert expected.gone

    memory.published.stands(second, 2)
    memory.published.end(second)

    expected = memory.published.expected("pod", A)
    assert expected is not None
    assert expected.sequence == memory.published.last_sequence(first) == 2
    assert living(memory) == []


def test_a_publish_that_was_given_up_leaves_what_stood(memory: Memory):
    memory.reads(seen(version="3"))
    memory.published.begin(seen(version="4"))
    memory.published.end(seen(version="4"))

    expected = memory.published.expected("pod", A)
    assert expected is not None
    assert expected.resource_version == "3"


def test_what_is_about_to_appear_is_living_and_what_is_about_to_end_is_not(memory: Memory):
    memory.reads(seen("a"))
    memory.published.begin(gone("a"))
    memory.published.begin(seen("b"))

    assert living(memory) == [("ns", "b")]


def test_a_fact_that_was_lost_is_expected_no_more(memory: Memory):
    memory.reads(seen())
    memory.reads(marker())
    memory.published.lost(seen())
    memory.published.lost(marker())

    assert memory.published.last_sequence(seen()) == 0
    assert memory.published.last_sequence(marker()) == 0
    assert living(memory) == []


def test_every_kind_has_its_own_position(memory: Memory):
    memory.reads(marker())
    memory.reads(marker("node", version="7"))
    memory.reads(marker(version="6"))

    assert memory.published.last_sequence(marker()) == 3
    assert memory.published.last_sequence(marker("node")) == 2
    assert memory.published.position("pod") == marker(version="6")
    assert memory.published.position("node") == marker("node", version="7")


# Other writers.


def test_the_log_repeating_our_own_write_is_no_news(memory: Memory):
    memory.published.begin(seen())
    memory.published.stands(seen(), 1)
    memory.published.end(seen())
    memory.reads(seen())

    assert memory.foreign == []


def test_the_log_showing_our_own_write_before_its_acknowledgement_is_no_news(memory: Memory):
    memory.published.begin(seen())
    memory.reads(seen())
    memory.published.stands(seen(), 1)
    memory.published.end(seen())

    assert memory.foreign == []


@pytest.mark.parametrize("fact", [seen(), gone(), marker()])
def test_a_write_that_is_not_ours_asks_for_a_fresh_comparison(memory: Memory, fact: Fact):
    memory.reads(fact)

    assert memory.foreign == ["pod"]


def test_what_was_there_before_we_had_read_the_log_is_not_foreign():
    memory = Memory()
    memory.attach()
    memory.reads(seen())

    assert memory.foreign == []


def test_a_late_acknowledgement_does_not_hide_the_foreign_write_that_came_after(memory: Memory):
    """Ours got sequence 1, a rival wrote 2, and the log was faster than our acknowledgement."""
    ours, theirs = seen(version="4"), seen(version="3", value="old")
    memory.published.begin(ours)
    memory.reads(theirs, sequence=2)
    memory.published.stands(ours, 1)
    memory.published.end(ours)

    standing = memory.published.standing("pod", A)
    assert standing is not None
    assert (standing.sequence, standing.resource_version) == (2, "3")
    assert memory.foreign == ["pod"]


def test_an_older_message_never_replaces_a_newer_one(memory: Memory):
    memory.reads(seen(version="4"), sequence=5)

    assert memory.published.found(seen().subject(), 4, codec.encode(seen(version="3"))) == ""
    assert memory.published.last_sequence(seen()) == 5


# Rubbish.


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\xc1",
        msgspec.msgpack.encode({"type": "object.seen.v2"}),
        codec.encode(seen("b")),
        codec.encode(seen("A_*")),
        codec.encode(seen(version="new")),
        codec.encode(seen(version="")),
        codec.encode(seen(version="²")),
        codec.encode(marker()),
    ],
    ids=[
        "undecodable",
        "unknown type",
        "another object",
        "no name",
        "no number",
        "empty number",
        "strange number",
        "a marker",
    ],
)
def test_rubbish_under_an_objects_subject_is_remembered_until_it_is_replaced(
    memory: Memory, rubbish: bytes
):
    memory.reads(seen())
    memory.foreign.clear()
    memory.reads(rubbish)

    standing = memory.published.standing("pod", A)
    assert standing is not None
    assert (standing.sequence, standing.uid, standing.resource_version) == (2, "", "0")
    assert not standing.gone
    assert memory.published.last_sequence(seen()) == 2
    assert memory.foreign == ["pod"]


@pytest.mark.parametrize("rubbish", [b"\xc1", codec.encode(marker("node"))])
def test_rubbish_over_a_marker_takes_the_marker_away_and_can_be_replaced(
    memory: Memory, rubbish: bytes
):
    memory.reads(marker())
    memory.reads(marker("node"))
    memory.foreign.clear()
    memory.reads(rubbish, on="vc.state.sync.-.pod")

    assert "pod" not in memory.published.markers
    assert memory.published.resume_from("pod") == ""
    assert memory.published.last_sequence(marker()) == 3
    assert memory.foreign == ["pod"]


def test_older_rubbish_changes_nothing(memory: Memory):
    memory.reads(marker(), sequence=5)
    memory.reads(seen(), sequence=6)
    memory.foreign.clear()

    assert memory.published.found("vc.state.sync.-.pod", 4, b"") == ""
    assert memory.published.found("vc.state.pod.ns.a", 4, b"") == ""
    assert "pod" in memory.published.markers
    assert memory.foreign == []


@pytest.mark.parametrize("subject", ["vc.state", "vc.state.pod", "vc.state.pod.ns.a.b", "x.y.z"])
def test_rubbish_on_a_subject_that_is_none_of_ours_is_ignored(memory: Memory, subject: str):
    memory.reads(b"\xc1", on=subject)

    assert memory.foreign == []


# Where a watch may go on.


def test_a_watch_goes_on_at_the_position_that_was_told_on_this_log(memory: Memory):
    memory.reads(marker())
    memory.reads(marker(version="7"))

    assert memory.published.resume_from("pod") == "7"
    assert memory.published.resume_from("node") == ""


def test_without_a_position_of_this_log_a_list_is_needed(memory: Memory):
    assert memory.published.resume_from("pod") == ""

    memory.reads(marker(incarnation="older"))

    assert memory.published.resume_from("pod") == ""
    assert memory.published.position("pod") is None


def test_while_rubbish_stands_among_the_facts_a_list_is_needed(memory: Memory):
    memory.reads(marker(version="7"))
    memory.reads(b"\xc1")

    assert memory.published.resume_from("pod") == ""

    memory.reads(seen())

    assert memory.published.resume_from("pod") == "7"


# What the watch has shown.


def test_the_newest_version_that_the_watch_has_shown_counts(memory: Memory):
    memory.published.saw("pod", A, uid="u1", resource_version="10")
    memory.published.saw("pod", A, uid="u1", resource_version="9")

    assert memory.published.seen_version("pod", A) == 10
    assert memory.published.seen_version("pod", ("ns", "b")) == 0


def test_a_version_is_told_only_of_the_object_that_the_watch_has_shown(memory: Memory):
    """A patch rests on it: the version of a successor would let it through to that one."""
    memory.reads(seen(uid="u1", version="3"))
    assert memory.published.version_of("pod", A, "u1") == ""

    memory.published.saw("pod", A, uid="u1", resource_version="9")
    assert memory.published.version_of("pod", A, "u1") == "9"

    memory.published.saw("pod", A, uid="u2", resource_version="10")
    memory.published.saw("pod", A, uid="u1", resource_version="9")
    assert memory.published.version_of("pod", A, "u1") == ""
    assert memory.published.version_of("pod", A, "u2") == "10"


def test_an_end_forgets_what_the_watch_has_shown(memory: Memory):
    memory.published.saw("pod", A, uid="u1", resource_version="10")
    memory.published.stands(gone(), 1)

    assert memory.published.seen_version("pod", A) == 0


def test_the_end_of_a_predecessor_does_not_forget_what_the_watch_has_shown_of_its_successor(
    memory: Memory,
):
    memory.reads(seen(uid="u1", version="3"))
    memory.published.saw("pod", A, uid="u1", resource_version="10")
    memory.published.begin(gone(uid="u1", version="3"))
    memory.published.begin(seen(uid="u2", version="10"))
    memory.published.stands(gone(uid="u1", version="3"), 2)
    memory.published.stands(seen(uid="u2", version="10"), 3)

    assert memory.published.seen_version("pod", A) == 10


# Which log it is.


def test_reading_goes_on_where_it_was(memory: Memory):
    memory.reads(seen())
    memory.reads(seen("b"))

    assert memory.attach(last=2) == 3
    assert memory.published.standing("pod", A) is not None


def test_reading_goes_on_behind_what_was_read_not_behind_what_was_acknowledged(memory: Memory):
    """Between the two there may be messages of a rival."""
    memory.reads(seen("a"))
    memory.published.stands(seen("b"), 5)

    assert memory.published.sequence == 5
    assert memory.attach(last=5) == 2


@pytest.mark.parametrize(
    ("incarnation", "last", "away_s"),
    [("new log", 2, 0.0), ("log", 1, 0.0), ("log", 2, RESUME_LIMIT_S)],
    ids=["another log", "a shorter log", "away for too long"],
)
def test_everything_is_forgotten_when_the_log_is_not_the_one_that_was_read(
    memory: Memory, incarnation: str, last: int, away_s: float
):
    memory.reads(seen())
    memory.reads(marker())
    memory.published.begin(seen("b"))
    memory.published.saw("pod", A, uid="u1", resource_version="10")
    generation = memory.published.generation

    assert memory.attach(incarnation, last, away_s) == 1

    published = memory.published
    assert published.generation == generation + 1
    assert published.incarnation == incarnation
    assert published.sequence == 0
    assert not published.is_caught_up
    assert published.standing("pod", A) is None
    assert published.expected("pod", ("ns", "b")) is None
    assert not published.is_in_flight(seen("b").subject())
    assert published.last_sequence(marker()) == 0
    assert published.markers == {}
    assert published.seen_version("pod", A) == 0


def test_a_log_that_was_acknowledged_further_than_it_reaches_is_another_one(memory: Memory):
    memory.reads(seen())
    memory.published.stands(seen("b"), 5)

    assert memory.attach(last=4) == 1


def test_reading_starts_over_if_it_was_interrupted_before_the_end():
    memory = Memory()
    memory.attach()
    memory.reads(seen())

    assert memory.attach() == 1


def test_what_is_gone_is_forgotten_when_its_tombstone_has_lived_its_time(memory: Memory):
    memory.reads(seen("a"))
    memory.reads(seen("b"))
    memory.published.stands(gone("a"), 3)
    memory.now_s = 1.0
    memory.published.stands(gone("b"), 4)

    memory.now_s = TOMBSTONE_LIFE_S + 0.5
    memory.published.stands(marker(), 5)

    assert set(memory.published.standings("pod")) == {("ns", "b")}
    assert memory.published.last_sequence(seen("a")) == 0


def test_what_came_back_in_time_is_not_forgotten(memory: Memory):
    memory.published.stands(gone("a"), 3)
    memory.published.stands(seen("a", uid="u2", version="10"), 4)

    memory.now_s = TOMBSTONE_LIFE_S + 1
    memory.published.stands(marker(), 5)

    assert living(memory) == [A]


def test_a_second_end_lives_its_own_time(memory: Memory):
    memory.published.stands(gone("a"), 3)
    memory.now_s = TOMBSTONE_LIFE_S - 1
    memory.published.stands(gone("a", uid="u2", version="12"), 4)

    memory.now_s = TOMBSTONE_LIFE_S + 1
    memory.published.stands(marker(), 5)

    assert set(memory.published.standings("pod")) == {A}
