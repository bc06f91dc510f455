"""Which facts an observation makes, given what stands on STATE and what is on its way there."""

from dataclasses import dataclass, field

import msgspec
import pytest

from stromboli.contracts.facts import NOTHING_NEW, ObjectGone, ObjectSeen
from stromboli.gateway.difference import Difference, ObjectFact, Observed
from stromboli.gateway.published import Published

A = ("ns", "a")


def found(name: str = "a", *, uid: str = "u1", version: str = "5", value: object = "v") -> Observed:
    return Observed(
        namespace="ns",
        name=name,
        uid=uid,
        resource_version=version,
        projection=msgspec.msgpack.encode(value),
    )


def story(facts: list[ObjectFact]) -> list[str]:
    return [
        f"{'gone' if isinstance(fact, ObjectGone) else 'seen'} {fact.name} {fact.uid} "
        f"{fact.resource_version}"
        for fact in facts
    ]


@dataclass
class Comparing:
    """A difference, and the writer that puts its facts on STATE."""

    sequence: int = 0
    on_their_way: list[ObjectFact] = field(default_factory=list[ObjectFact])
    published: Published = field(init=False)
    difference: Difference = field(init=False)

    def __post_init__(self) -> None:
        self.published = Published(lambda kind: None)
        self.difference = Difference("pod", self.published)

    def sends(self, facts: list[ObjectFact]) -> list[str]:
        for fact in facts:
            self.published.begin(fact)
            self.on_their_way.append(fact)
        return story(facts)

    def arrives(self) -> None:
        """Everything that is on its way is acknowledged."""
        for fact in self.on_their_way:
            self.sequence += 1
            self.published.stands(fact, self.sequence)
        for fact in self.on_their_way:
            self.published.end(fact)
        self.on_their_way.clear()

    def stores(self, facts: list[ObjectFact]) -> list[str]:
        told = self.sends(facts)
        self.arrives()
        return told

    def lists(self, *objects: Observed, version: str = "20") -> list[str]:
        """A complete list of this version, without what it shows while it is under way."""
        self.difference.list_started()
        for one in objects:
            self.stores(self.difference.seen(one, "list"))
        return self.stores(self.difference.corrections(version, "list"))

    def shows_rubbish(self) -> None:
        self.sequence += 1
        self.published.found("vc.state.pod.ns.a", self.sequence, b"\xc1")


@pytest.fixture
def comparing() -> Comparing:
    """The pod a with uid u1 stands on STATE at version 5."""
    comparing = Comparing()
    comparing.stores(comparing.difference.seen(found(), "c"))
    return comparing


# What exists.


def test_an_object_that_is_new_is_told_with_all_it_has():
    facts = Comparing().difference.seen(found(value={"x": 1}), "watch/pod/5")

    assert facts == [
        ObjectSeen(
            kind="pod",
            namespace="ns",
            name="a",
            uid="u1",
            resource_version="5",
            projection=msgspec.Raw(msgspec.msgpack.encode({"x": 1})),
            cause="watch/pod/5",
        )
    ]


def test_a_change_of_the_version_alone_is_not_told(comparing: Comparing):
    assert comparing.difference.seen(found(version="6"), "c") == []


def test_a_changed_projection_is_told(comparing: Comparing):
    told = comparing.sends(comparing.difference.seen(found(version="6", value="w"), "c"))

    assert told == ["seen a u1 6"]


def test_a_changed_projection_of_the_same_version_is_told(comparing: Comparing):
    """A newer gateway projects more fields of an object that did not change."""
    told = comparing.sends(comparing.difference.seen(found(version="5", value="w"), "c"))

    assert told == ["seen a u1 5"]


def test_an_older_state_of_the_object_is_dropped(comparing: Comparing):
    assert comparing.difference.seen(found(version="4", value="w"), "c") == []


def test_versions_are_compared_as_numbers(comparing: Comparing):
    assert comparing.sends(comparing.difference.seen(found(version="10", value="w"), "c"))
    assert comparing.difference.seen(found(version="9", value="x"), "c") == []


def test_another_uid_under_one_name_is_an_end_and_a_beginning(comparing: Comparing):
    facts = comparing.difference.seen(found(uid="u2", version="8"), "c")

    assert story(facts) == ["gone a u1 5", "seen a u2 8"]
    assert facts[0].projection == NOTHING_NEW


def test_a_predecessor_shown_by_a_server_that_lags_behind_is_dropped(comparing: Comparing):
    assert comparing.difference.seen(found(uid="u0", version="3"), "c") == []


@pytest.mark.parametrize("uid", ["u1", "u0"])
def test_what_is_gone_does_not_come_back_by_an_older_state(comparing: Comparing, uid: str):
    comparing.stores(comparing.difference.gone(found(version="7"), "c"))

    assert comparing.difference.seen(found(uid=uid, version="6", value="w"), "c") == []


def test_a_successor_of_what_is_gone_is_told(comparing: Comparing):
    comparing.stores(comparing.difference.gone(found(version="7"), "c"))

    assert comparing.sends(comparing.difference.seen(found(uid="u2", version="8"), "c")) == [
        "seen a u2 8"
    ]


def test_what_a_list_missed_comes_back_by_the_very_state_that_stood(comparing: Comparing):
    """The list that ended it was wrong, and the next one shows it as it was."""
    comparing.lists(version="5")
    comparing.difference.list_started()

    assert comparing.sends(comparing.difference.seen(found(), "c")) == ["seen a u1 5"]


# What is gone.


def test_an_end_is_told_once_with_the_last_state(comparing: Comparing):
    last = found(version="7", value="exit 3")
    facts = comparing.difference.gone(last, "watch/pod/7")

    assert facts == [
        ObjectGone(
            kind="pod",
            namespace="ns",
            name="a",
            uid="u1",
            resource_version="7",
            projection=msgspec.Raw(last.projection),
            cause="watch/pod/7",
        )
    ]
    comparing.stores(facts)
    assert comparing.difference.gone(last, "c") == []


def test_the_end_of_what_was_never_told_is_not_told(comparing: Comparing):
    assert comparing.difference.gone(found("b"), "c") == []


def test_the_late_end_of_a_predecessor_does_not_end_its_successor(comparing: Comparing):
    comparing.stores(comparing.difference.seen(found(uid="u2", version="8"), "c"))

    assert comparing.difference.gone(found(uid="u1", version="7"), "c") == []


def test_what_vanished_without_a_trace_ends_as_it_was_last_known(comparing: Comparing):
    comparing.difference.list_started()
    (fact,) = comparing.difference.corrections("9", "list/pod/9")

    assert story([fact]) == ["gone a u1 5"]
    assert fact.projection == NOTHING_NEW
    assert fact.cause == "list/pod/9"


def test_what_is_gone_does_not_vanish(comparing: Comparing):
    comparing.stores(comparing.difference.gone(found(version="7"), "c"))

    assert comparing.lists() == []


# While an earlier publication is still on its way.


def test_an_event_is_compared_with_what_is_on_its_way(comparing: Comparing):
    comparing.sends(comparing.difference.seen(found(version="6", value="w"), "c"))

    assert comparing.difference.seen(found(version="6", value="w"), "c") == []
    assert comparing.difference.seen(found(version="7", value="w"), "c") == []
    assert comparing.difference.seen(found(version="5", value="v"), "c") == []
    assert story(comparing.difference.seen(found(version="8", value="v"), "c")) == ["seen a u1 8"]


def test_an_end_follows_a_beginning_that_is_still_on_its_way():
    comparing = Comparing()
    comparing.sends(comparing.difference.seen(found(), "c"))
    told = comparing.sends(comparing.difference.gone(found(version="6"), "c"))

    assert told == ["gone a u1 6"]
    assert comparing.difference.gone(found(version="6"), "c") == []


def test_a_successor_follows_an_end_that_is_still_on_its_way(comparing: Comparing):
    comparing.sends(comparing.difference.gone(found(version="7"), "c"))
    told = comparing.sends(comparing.difference.seen(found(uid="u2", version="8"), "c"))

    assert told == ["seen a u2 8"]

    comparing.arrives()

    assert comparing.difference.seen(found(uid="u2", version="8"), "c") == []
    assert comparing.difference.gone(found(uid="u1", version="7"), "c") == []


def test_a_replacement_on_its_way_is_followed_by_the_next(comparing: Comparing):
    comparing.sends(comparing.difference.seen(found(uid="u2", version="8"), "c"))
    facts = comparing.difference.seen(found(uid="u3", version="9"), "c")

    assert story(facts) == ["gone a u2 8", "seen a u3 9"]


def test_a_list_counts_what_is_on_its_way_as_standing(comparing: Comparing):
    comparing.sends(comparing.difference.seen(found("b"), "c"))
    comparing.sends(comparing.difference.gone(found("a", version="7"), "c"))

    assert comparing.lists() == ["gone b u1 5"]


# Lists.


def test_what_a_complete_list_does_not_contain_is_gone(comparing: Comparing):
    comparing.stores(comparing.difference.seen(found("b"), "c"))

    assert comparing.lists(found("b")) == ["gone a u1 5"]


def test_a_list_that_was_abandoned_ends_nothing(comparing: Comparing):
    comparing.difference.list_started()
    comparing.difference.list_abandoned()

    assert comparing.lists(found()) == []


def test_what_an_earlier_list_contained_does_not_count_for_the_next(comparing: Comparing):
    assert comparing.lists(found()) == []
    assert comparing.lists() == ["gone a u1 5"]


def test_an_event_older_than_the_last_complete_list_is_dropped(comparing: Comparing):
    """What the list did not contain does not come back by a server that lags behind."""
    comparing.difference.list_started()
    comparing.stores(comparing.difference.corrections("20", "list"))

    assert comparing.difference.seen(found("a", version="19"), "c") == []
    assert comparing.difference.seen(found("never told", version="20"), "c") == []
    assert story(comparing.difference.seen(found("b", version="21"), "c")) == ["seen b u1 21"]


def test_what_is_in_the_list_is_told_however_old_it_is(comparing: Comparing):
    comparing.difference.list_started()
    comparing.stores(comparing.difference.corrections("20", "list"))
    comparing.difference.list_started()

    assert story(comparing.difference.seen(found("b", version="3"), "list")) == ["seen b u1 3"]


def test_an_object_in_the_list_that_cannot_be_read_is_not_gone(comparing: Comparing):
    comparing.difference.list_started()
    comparing.difference.exists(A)

    assert comparing.difference.corrections("20", "list") == []


@pytest.mark.parametrize("version", ["9", "50"])
def test_a_complete_list_corrects_what_is_newer_on_state_than_it_can_be(
    comparing: Comparing, version: str
):
    """Up to the list's version nothing newer exists, and beyond it nobody can know more."""
    comparing.stores(comparing.difference.seen(found(version=version, value="wrong"), "c"))

    assert comparing.lists(found(version="6", value="right")) == ["seen a u1 6"]
    assert not comparing.difference.has_doubts


def test_what_came_to_state_during_a_list_is_left_to_the_next(comparing: Comparing):
    """A gateway that overlaps with us may have seen more than the list shows."""

    def during() -> None:
        comparing.stores(comparing.difference.gone(found(version="50"), "another gateway"))

    comparing.difference.list_started()
    during()

    assert comparing.difference.corrections("20", "list") == []
    assert comparing.difference.has_doubts
    assert comparing.lists(found(version="6", value="right")) == ["seen a u1 6"]
    assert not comparing.difference.has_doubts


def test_an_end_is_never_newer_than_the_list_that_showed_it(comparing: Comparing):
    """A later object of the same name must not be taken for an older state."""
    comparing.stores(comparing.difference.seen(found(version="50", value="w"), "c"))

    assert comparing.lists() == ["gone a u1 20"]
    assert story(comparing.difference.seen(found(uid="u2", version="21"), "c")) == ["seen a u2 21"]


def test_an_end_from_the_future_is_rewritten_as_one_of_the_list(comparing: Comparing):
    comparing.stores(comparing.difference.gone(found(version="50"), "c"))

    assert comparing.lists() == ["gone a u1 20"]
    assert comparing.lists() == []
    assert story(comparing.difference.seen(found(uid="u2", version="21"), "c")) == ["seen a u2 21"]


def test_what_lives_under_an_end_from_the_future_is_told_as_listed(comparing: Comparing):
    comparing.stores(comparing.difference.gone(found(version="50"), "c"))

    assert comparing.lists(found(uid="u2", version="6")) == ["seen a u2 6"]


def test_an_end_from_the_future_does_not_hide_what_can_not_be_read_yet(comparing: Comparing):
    comparing.stores(comparing.difference.gone(found(version="50"), "c"))
    comparing.difference.list_started()
    comparing.difference.exists(A)

    assert comparing.stores(comparing.difference.corrections("20", "list")) == ["gone a u1 20"]
    assert story(comparing.difference.seen(found(uid="u2", version="21"), "c")) == ["seen a u2 21"]


# Rubbish on STATE.


def test_rubbish_is_replaced_by_whatever_is_seen(comparing: Comparing):
    comparing.shows_rubbish()
    told = comparing.stores(comparing.difference.seen(found(version="5"), "c"))

    assert told == ["seen a u1 5"], "no end before it: views show the object all the time"
    assert comparing.difference.seen(found(version="5"), "c") == []


def test_an_end_is_told_over_rubbish(comparing: Comparing):
    comparing.shows_rubbish()

    assert story(comparing.difference.gone(found(version="7"), "c")) == ["gone a u1 7"]


def test_rubbish_that_belongs_to_nothing_in_the_list_becomes_an_end_without_uid(
    comparing: Comparing,
):
    comparing.shows_rubbish()

    assert comparing.lists() == ["gone a  0"]
    assert comparing.lists() == []
