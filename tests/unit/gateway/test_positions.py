"""The position of a kind never tells more than STATE has, and stops at nothing that never shows."""

import asyncio
import contextlib
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.contracts.facts import KindSynced
from stromboli.gateway.positions import Positions, Ticket, Track
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.clock import ManualClock
from stromboli.testkit.effort import examples


def known(version: int, count: int = 3) -> KindSynced:
    return KindSynced(kind="pod", incarnation="log", resource_version=str(version), count=count)


def event(track: Track, version: int, facts: int = 0) -> Ticket:
    """An event that makes so many facts, none of which stands yet."""
    ticket = track.event(version)
    for _ in range(facts):
        ticket.one_more()
    ticket.done()
    return ticket


class Publishing:
    """Positions on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.positions = Positions(self.clock)

    async def due(self) -> list[tuple[str, int, int]]:
        """What would be published at this moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.005):
                return await self.positions.wait_until_due()
        return []


# How far STATE is.


def test_a_kind_has_reached_the_last_of_the_first_events_that_stand():
    track = Positions(ManualClock()).follow("pod", None)
    first, second, third = (event(track, version, 1) for version in (1, 2, 3))
    assert track.reached == 0

    second.done()
    assert track.reached == 0

    first.done()
    assert track.reached == 2

    third.done()
    assert track.reached == 3


def test_an_event_that_makes_no_fact_holds_up_nobody():
    track = Positions(ManualClock()).follow("pod", None)
    event(track, 5)

    assert track.reached == 5


def test_an_event_of_two_facts_stands_when_both_do():
    track = Positions(ManualClock()).follow("pod", None)
    ticket = event(track, 5, 2)
    ticket.done()
    assert track.reached == 0

    ticket.done()

    assert track.reached == 5


def test_nothing_moves_from_the_beginning_of_a_list_to_its_end():
    track = Positions(ManualClock()).follow("pod", known(4))
    listing = track.begin_list()
    event(track, 9)
    assert track.reached == 4

    track.end_list(listing, 8, 1)

    assert track.reached == 9


def test_a_list_stands_when_all_its_facts_do():
    track = Positions(ManualClock()).follow("pod", None)
    listing = track.begin_list()
    listing.one_more()
    track.end_list(listing, 8, 1)
    assert track.reached == 0

    listing.done()

    assert track.reached == 8


def test_a_list_that_was_given_up_says_nothing_and_holds_up_nothing():
    track = Positions(ManualClock()).follow("pod", known(4))
    listing = track.begin_list()
    listing.one_more()
    listing.done()  # given up
    event(track, 9)
    assert track.reached == 4

    listing.done()  # the fact that it had made stands

    assert track.reached == 9


def test_a_restored_api_server_takes_the_position_back():
    track = Positions(ManualClock()).follow("pod", known(900))
    track.end_list(track.begin_list(), 20, 0)

    assert track.reached == 20


# What is published of it, and when.


async def test_what_stands_on_state_when_a_turn_begins_is_not_published_again():
    publishing = Publishing()
    publishing.positions.follow("pod", known(4))

    assert await publishing.due() == []
    assert publishing.positions.reached("pod") == 4


async def test_a_position_that_moves_is_published_once_a_second():
    publishing = Publishing()
    track = publishing.positions.follow("pod", known(4))
    event(track, 5)
    assert await publishing.due() == [("pod", 5, 3)]

    event(track, 6)
    await publishing.clock.advance(0.99)
    assert await publishing.due() == []

    await publishing.clock.advance(0.02)
    assert await publishing.due() == [("pod", 6, 3)]

    await publishing.clock.advance(10)
    assert await publishing.due() == []


async def test_a_position_that_somebody_waits_for_is_published_at_once():
    publishing = Publishing()
    track = publishing.positions.follow("pod", known(4))
    event(track, 5)
    await publishing.due()
    publishing.positions.announce("pod", "7")
    assert await publishing.due() == []

    await publishing.clock.advance(0.011)
    event(track, 7)
    assert await publishing.due() == [("pod", 7, 3)]

    event(track, 8)
    await publishing.clock.advance(0.5)
    assert await publishing.due() == []


async def test_a_position_is_published_at_most_every_two_milliseconds():
    publishing = Publishing()
    track = publishing.positions.follow("pod", known(4))
    publishing.positions.announce("pod", "99")
    event(track, 5)
    assert await publishing.due() == [("pod", 5, 3)]

    event(track, 6)
    await publishing.clock.advance(0.0015)
    assert await publishing.due() == []

    await publishing.clock.advance(0.001)
    assert await publishing.due() == [("pod", 6, 3)]


async def test_a_version_that_stands_already_is_published_when_somebody_waits_for_it():
    publishing = Publishing()
    track = publishing.positions.follow("pod", known(4))
    event(track, 5)
    await publishing.due()
    event(track, 6)
    await publishing.clock.advance(0.1)
    assert await publishing.due() == []

    publishing.positions.announce("pod", "6")

    assert await publishing.due() == [("pod", 6, 3)]


async def test_a_version_that_was_published_is_not_published_for_who_waits_for_it():
    publishing = Publishing()
    event(publishing.positions.follow("pod", known(4)), 5)
    await publishing.due()
    publishing.positions.announce("pod", "5")
    publishing.positions.announce("secret", "5")
    await publishing.clock.advance(10)

    assert await publishing.due() == []


async def test_a_list_is_published_with_its_count_when_its_facts_stand():
    publishing = Publishing()
    track = publishing.positions.follow("pod", None)
    listing = track.begin_list()
    listing.one_more()
    track.end_list(listing, 8, 1)
    await publishing.clock.advance(10)
    assert await publishing.due() == []

    listing.done()

    assert await publishing.due() == [("pod", 8, 1)]


async def test_a_list_of_the_same_version_is_published_all_the_same():
    """What it corrected makes absence mean absence again."""
    publishing = Publishing()
    track = publishing.positions.follow("pod", known(8))
    track.end_list(track.begin_list(), 8, 2)

    assert await publishing.due() == [("pod", 8, 2)]


async def test_a_kind_that_the_cluster_does_without_is_complete():
    publishing = Publishing()
    publishing.positions.follow("jobflow", None)
    publishing.positions.is_not_served("jobflow")

    assert await publishing.due() == [("jobflow", 0, 0)]


async def test_a_lower_position_is_published_too():
    publishing = Publishing()
    track = publishing.positions.follow("pod", known(900))
    track.end_list(track.begin_list(), 20, 0)

    assert await publishing.due() == [("pod", 20, 0)]


async def test_kinds_are_published_for_themselves():
    publishing = Publishing()
    pods = publishing.positions.follow("pod", known(4))
    nodes = publishing.positions.follow("node", known(4))
    event(pods, 5)
    await publishing.due()
    event(pods, 6)
    event(nodes, 7)

    assert await publishing.due() == [("node", 7, 3)]


@pytest.mark.parametrize("waits", ["for what moves", "for what is due"])
async def test_who_waits_is_woken(waits: str):
    positions = Positions(SystemClock())
    track = positions.follow("pod", known(4))
    if waits == "for what is due":
        event(track, 5)
        await positions.wait_until_due()
        event(track, 6)
    waiting = asyncio.create_task(positions.wait_until_due())
    await asyncio.sleep(0)
    if waits == "for what is due":
        positions.announce("pod", "6")
    else:
        event(track, 6)

    async with asyncio.timeout(0.5):
        assert await waiting == [("pod", 6, 3)]


# In any order.


class PositionsMachine(RuleBasedStateMachine):
    """A cluster whose versions go on, a writer that acknowledges in any order.

    A position is right if STATE then has, of every key, what the cluster had at that version.
    """

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.history: list[tuple[int, str]] = []
        """Version and key of each change that the cluster made and the watch showed."""
        self.state: dict[str, int] = {}
        """Per key, up to which of its versions STATE is."""
        self.lanes: dict[str, deque[tuple[int, Ticket]]] = {}
        self.track = Track(0, self._moved)
        self.moved: list[int | None] = []
        self.listing: Ticket | None = None
        self._list_is_complete()

    def _moved(self, listed: int | None) -> None:
        self.moved.append(listed)

    def _write(self, key: str, version: int, ticket: Ticket) -> None:
        ticket.one_more()
        self.lanes.setdefault(key, deque()).append((version, ticket))

    @precondition(lambda self: self.listing is None)
    @rule(key=st.sampled_from(["a", "b", "c"]), makes_a_fact=st.booleans())
    def an_event_comes(self, key: str, makes_a_fact: bool) -> None:
        self.version += 1
        ticket = self.track.event(self.version)
        if makes_a_fact:
            self.history.append((self.version, key))
            self._write(key, self.version, ticket)
        ticket.done()

    @precondition(lambda self: self.listing is None)
    @rule()
    def a_bookmark_comes(self) -> None:
        self.version += 1
        self.track.event(self.version).done()

    @precondition(lambda self: self.listing is None)
    @rule()
    def a_list_begins(self) -> None:
        self.listing = self.track.begin_list()

    @precondition(lambda self: self.listing is not None)
    @rule(keys=st.sets(st.sampled_from(["a", "b", "c"])), is_given_up=st.booleans())
    def the_list_ends(self, keys: set[str], is_given_up: bool) -> None:
        assert self.listing is not None
        for key in sorted(keys):
            self.version += 1
            self.history.append((self.version, key))
            self._write(key, self.version, self.listing)
        if is_given_up:
            self.listing.done()
            self.listing = None
            # What changed meanwhile is found by the next list only.
            self.a_list_begins()
        else:
            self._list_is_complete()

    def _list_is_complete(self) -> None:
        ticket, self.listing = self.listing or self.track.begin_list(), None
        self.track.end_list(ticket, self.version, len(self.state))

    @precondition(lambda self: self.lanes)
    @rule(data=st.data())
    def a_fact_stands(self, data: st.DataObject) -> None:
        self._acknowledge(data.draw(st.sampled_from(sorted(self.lanes))))

    def _acknowledge(self, key: str) -> None:
        version, ticket = self.lanes[key].popleft()
        if not self.lanes[key]:
            del self.lanes[key]
        self.state[key] = version
        ticket.done()

    @rule()
    def the_api_server_is_restored(self) -> None:
        """Its versions begin anew; a list finds that out, and corrects what is beyond it."""
        if self.listing is not None or self.lanes:
            return
        self.version = 1
        self.history.clear()
        self.state.clear()
        self._list_is_complete()
        assert self.track.reached == 1

    @invariant()
    def everything_up_to_the_position_stands(self) -> None:
        missing = [
            (version, key)
            for version, key in self.history
            if version <= self.track.reached and self.state.get(key, 0) < version
        ]
        assert not missing

    def teardown(self) -> None:
        if self.listing is not None:
            self._list_is_complete()
        while self.lanes:
            self._acknowledge(min(self.lanes))
        assert self.track.reached == self.version


PositionsMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
test_everything_up_to_a_position_stands_on_state = PositionsMachine.TestCase
