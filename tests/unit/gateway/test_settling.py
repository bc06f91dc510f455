"""Which of the gateway's own writes the views can't see yet."""

import asyncio
from dataclasses import dataclass, field

import pytest

from stromboli.gateway.published import Key
from stromboli.gateway.settling import OwnWrites

A: Key = ("ns", "a")


@dataclass
class Writes:
    """Own writes of pods, where the watch has shown them, and which kinds shall be listed."""

    on_nodes: set[tuple[Key, str]] = field(default_factory=set[tuple[Key, str]])
    lists: list[str] = field(default_factory=list[str])
    list_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    own: OwnWrites = field(init=False)

    def __post_init__(self) -> None:
        self.own = OwnWrites(
            frozenset({"pod", "vcjob"}),
            lambda key, uid: (key, uid) in self.on_nodes,
            list_again=self._list_again,
        )

    def _list_again(self, kind: str) -> None:
        self.lists.append(kind)
        self.list_wanted.set()

    def wrote(self, version: str, *, uid: str = "u1", partition: int = 3, key: Key = A) -> None:
        self.own.wrote(partition, "pod", key, uid=uid, resource_version=version)

    def deleted(self, *, uid: str = "u1", partition: int = 3) -> None:
        self.wrote("", uid=uid, partition=partition)

    def bound(self, *, uid: str = "u1") -> None:
        self.own.placed(3, A, uid=uid)

    def seen(self, version: str, *, uid: str = "u1", newest: bool = True) -> None:
        self.own.stands("pod", A, uid=uid, resource_version=version, gone=False, newest=newest)

    def gone(self, version: str = "99", *, uid: str = "u1") -> None:
        self.own.stands("pod", A, uid=uid, resource_version=version, gone=True, newest=True)

    def lists_everything(self, kind: str = "pod") -> None:
        self.own.list_started(kind)
        self.own.list_done(kind)

    @property
    def is_settled(self) -> bool:
        return not self.own.unsettled(3)


@pytest.fixture
def writes() -> Writes:
    return Writes()


def test_a_write_is_settled_when_its_version_stands_on_state(writes: Writes):
    writes.wrote("10")
    assert not writes.is_settled

    writes.seen("9")
    assert not writes.is_settled

    writes.seen("10")
    assert writes.is_settled


def test_a_newer_version_settles_it_too(writes: Writes):
    writes.wrote("9")
    writes.seen("10")

    assert writes.is_settled


def test_of_several_writes_to_one_object_the_newest_counts(writes: Writes):
    writes.wrote("10")
    writes.wrote("12")
    writes.wrote("11")
    writes.seen("11")
    assert not writes.is_settled

    writes.seen("12")
    assert writes.is_settled


def test_a_write_to_a_kind_that_is_not_watched_settles_at_once(writes: Writes):
    writes.own.wrote(3, "configmap", A, uid="u1", resource_version="10")

    assert writes.is_settled


def test_facts_about_other_objects_settle_nothing(writes: Writes):
    writes.wrote("10", key=("ns", "b"))
    writes.seen("10")

    assert not writes.is_settled


def test_each_partition_waits_for_its_own_writes(writes: Writes):
    writes.wrote("10", partition=3)
    writes.wrote("10", partition=4, key=("ns", "b"))
    writes.wrote("10", partition=5)

    assert [writes.own.unsettled(partition) for partition in (2, 3, 4, 5)] == [0, 1, 1, 1]

    writes.seen("10")

    assert [writes.own.unsettled(partition) for partition in (2, 3, 4, 5)] == [0, 0, 1, 0]


def test_what_can_never_be_shown_is_not_waited_for(writes: Writes):
    writes.wrote("10")
    writes.own.never_shows("pod", A)
    writes.own.never_shows("pod", ("ns", "b"))

    assert writes.is_settled


def test_what_is_waited_for_is_known_by_its_uid(writes: Writes):
    writes.wrote("10", uid="u2")

    assert writes.own.is_waited_for("pod", A, "u2")
    assert not writes.own.is_waited_for("pod", A, "u1")
    assert not writes.own.is_waited_for("pod", ("ns", "b"), "u2")


# Ends.


def test_a_deletion_is_settled_by_the_end_and_by_nothing_less(writes: Writes):
    writes.deleted()
    writes.seen("10")
    assert not writes.is_settled

    writes.gone()
    assert writes.is_settled


def test_a_deletion_after_a_write_waits_for_the_end(writes: Writes):
    writes.wrote("10")
    writes.deleted()
    writes.seen("10")

    assert not writes.is_settled


def test_the_end_settles_every_write_to_the_object(writes: Writes):
    writes.wrote("10")
    writes.bound()
    writes.gone("9")

    assert writes.is_settled


def test_a_successor_on_state_proves_the_end(writes: Writes):
    writes.wrote("8")
    writes.deleted()
    writes.seen("10", uid="u2")

    assert writes.is_settled


def test_an_end_of_unknown_age_settles_deletions_only(writes: Writes):
    """It replaces rubbish on STATE: nobody knows whose end it is, but nothing stands there."""
    writes.deleted(uid="u1")
    writes.wrote("10", uid="u2")
    writes.gone("0", uid="")
    assert not writes.is_settled

    writes.seen("10", uid="u2")
    assert writes.is_settled


# Predecessors and successors of one name.


def test_the_end_of_a_predecessor_does_not_settle_the_creation_of_its_successor(writes: Writes):
    writes.deleted(uid="u1")
    writes.wrote("20", uid="u2")
    assert not writes.is_settled

    writes.gone("19", uid="u1")
    assert not writes.is_settled

    writes.seen("20", uid="u2")
    assert writes.is_settled


def test_a_late_fact_about_a_predecessor_does_not_settle_the_creation_of_its_successor(
    writes: Writes,
):
    writes.wrote("20", uid="u2")
    writes.seen("10", uid="u1")

    assert not writes.is_settled


def test_a_late_deletion_of_a_predecessor_does_not_forget_its_successor(writes: Writes):
    writes.wrote("20", uid="u2")
    writes.deleted(uid="u1")
    writes.gone("19", uid="u1")

    assert not writes.is_settled


# Binds.


def test_a_bind_is_settled_when_the_pod_stands_on_state_with_its_node(writes: Writes):
    writes.bound()
    writes.seen("10")
    assert not writes.is_settled

    writes.on_nodes.add((A, "u1"))
    writes.seen("10", newest=False)
    assert not writes.is_settled, "what stands may be older than what the watch has shown"

    writes.seen("11")
    assert writes.is_settled


def test_a_bind_after_a_write_is_not_settled_by_the_write_alone(writes: Writes):
    writes.wrote("10")
    writes.bound()
    writes.seen("10")
    assert not writes.is_settled

    writes.on_nodes.add((A, "u1"))
    writes.seen("11")
    assert writes.is_settled


def test_a_write_after_a_bind_is_not_settled_by_the_bind_alone(writes: Writes):
    writes.bound()
    writes.wrote("12")
    writes.on_nodes.add((A, "u1"))
    writes.seen("11")

    assert not writes.is_settled


# What must be published although nothing changed.


def test_a_version_that_was_written_must_be_published_even_without_a_change(writes: Writes):
    assert not writes.own.awaits("pod", A, "10")

    writes.wrote("10")

    assert not writes.own.awaits("pod", A, "9")
    assert writes.own.awaits("pod", A, "10")
    assert writes.own.awaits("pod", A, "11")
    assert not writes.own.awaits("pod", ("ns", "b"), "10")
    assert not writes.own.awaits("vcjob", A, "10")


def test_what_stands_is_awaited_no_more(writes: Writes):
    writes.wrote("10")
    writes.seen("10")

    assert not writes.own.awaits("pod", A, "11")


def test_an_end_or_a_node_is_a_change_and_need_not_be_awaited(writes: Writes):
    writes.deleted()
    writes.bound()

    assert not writes.own.awaits("pod", A, "11")


# Lists.


def test_a_complete_list_settles_what_was_written_before_it_began(writes: Writes):
    writes.wrote("10")
    writes.wrote("10", key=("ns", "b"))
    writes.own.list_started("pod")
    writes.wrote("11", key=("ns", "b"))
    writes.own.list_done("pod")

    assert writes.own.unsettled(3) == 1
    assert not writes.own.awaits("pod", A, "10")
    assert writes.own.awaits("pod", ("ns", "b"), "11")


def test_a_list_of_another_kind_settles_nothing(writes: Writes):
    writes.wrote("10")
    writes.lists_everything("vcjob")

    assert not writes.is_settled


def test_a_list_that_was_abandoned_settles_nothing(writes: Writes):
    writes.wrote("10")
    writes.own.list_started("pod")
    writes.own.list_abandoned("pod")
    writes.own.list_done("pod")

    assert not writes.is_settled


# Waiting for it.


async def test_a_fence_waits_until_everything_of_its_partition_has_settled(writes: Writes):
    writes.wrote("10")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = group.create_task(writes.own.wait_until_settled(3, lambda: False))
        elsewhere = group.create_task(writes.own.wait_until_settled(4, lambda: False))
        assert await elsewhere
        assert not waiting.done()
        writes.seen("10")
        assert await waiting
    assert writes.lists == []


async def test_a_fence_gives_up_when_its_time_is_over(writes: Writes):
    writes.wrote("10")

    assert not await writes.own.wait_until_settled(3, lambda: True)
    assert not writes.is_settled


async def test_a_fence_waits_for_a_first_list_and_asks_for_it_at_once(writes: Writes):
    """A predecessor's last writes may be on their way; only a list is sure to have them."""
    writes.own.unlisted = {"vcjob"}
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = group.create_task(writes.own.wait_until_settled(3, lambda: False))
        await writes.list_wanted.wait()
        assert writes.lists == ["vcjob"]
        writes.lists_everything("pod")
        assert not waiting.done()
        writes.lists_everything("vcjob")
        assert await waiting
    assert writes.lists == ["vcjob"]


async def test_a_fence_that_waited_long_enough_asks_for_one_list(writes: Writes):
    """The object came and went while the watch had lost its history: nothing will ever come."""
    writes.wrote("10")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = group.create_task(writes.own.wait_until_settled(3, lambda: False))
        await writes.list_wanted.wait()
        writes.lists_everything()
        assert await waiting
    assert writes.lists == ["pod"]


async def test_nothing_is_waited_for_when_state_is_another_log(writes: Writes):
    writes.wrote("10")
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = group.create_task(writes.own.wait_until_settled(3, lambda: False))
        await asyncio.sleep(0)
        writes.own.forget()
        assert await waiting
