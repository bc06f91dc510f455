"""The view's promises one by one; `test_view_model.py` tries them all at once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.facts import Fact, KindSynced, ObjectGone, ObjectSeen
from stromboli.contracts.streams import RESUME_LIMIT_S
from stromboli.runtime.bus.reader import LogMessage, LogPosition
from stromboli.runtime.bus.view import Delta, View


def packed(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


def read_text(_: str, projection: msgspec.Raw) -> str:
    return msgspec.msgpack.decode(projection, type=str)


def read_end(_: str, known: str, projection: msgspec.Raw) -> str:
    return f"{known}, {msgspec.msgpack.decode(projection, type=str)}"


def seen(name: str, value: object = "v", *, uid: str = "u1", version: str = "1") -> ObjectSeen:
    return ObjectSeen(
        kind="pod",
        namespace="ns",
        name=name,
        uid=uid,
        resource_version=version,
        projection=packed(value),
    )


def gone(name: str, value: object = "v", *, uid: str = "u1") -> ObjectGone:
    return ObjectGone(
        kind="pod",
        namespace="ns",
        name=name,
        uid=uid,
        resource_version="9",
        projection=packed(value),
    )


def marker(incarnation: str = "log", version: str = "1", kind: str = "pod") -> KindSynced:
    return KindSynced(kind=kind, incarnation=incarnation, resource_version=version, count=0)


@dataclass
class Watching:
    """A view, the story it tells, and a log that numbers its messages."""

    story: list[str] = field(default_factory=list[str])
    deltas: list[Delta[str]] = field(default_factory=list[Delta[str]])
    sequences: Iterator[int] = field(default_factory=lambda: count(1))
    view: View[str] = field(init=False)

    def __post_init__(self) -> None:
        self.view = View(["pod"], read_text, self, decode_end=read_end)

    def changed(self, delta: Delta[str]) -> None:
        kind = "added" if delta.old is None else "gone" if delta.new is None else "changed"
        entry = delta.new or delta.ended
        assert entry is not None
        self.story.append(f"{delta.name} {kind} as {entry.uid} {entry.object}")
        self.deltas.append(delta)

    def synced(self, kind: str) -> None:
        self.story.append(f"{kind} synced")

    def unreadable(self, message: LogMessage, reason: str) -> None:
        self.story.append(f"unreadable: {reason}")

    def attach(self, incarnation: str = "log", last: int = 3, away_s: float = 0) -> int:
        return self.view.attach(LogPosition(incarnation, last, away_s))

    def hears(self, *facts: Fact | bytes, on: str = "vc.state.pod.ns.a", pending: int = 0) -> None:
        for fact in facts:
            payload = fact if isinstance(fact, bytes) else codec.encode(fact)
            subject = on if isinstance(fact, bytes) else fact.subject()
            sequence = next(self.sequences)
            self.view.apply(LogMessage(subject, sequence, payload, {}, pending, 0.0))

    def reads_anew(self, incarnation: str = "log", away_s: float = RESUME_LIMIT_S) -> None:
        assert self.attach(incarnation, away_s=away_s) == 1
        self.sequences = count(1)
        self.story.clear()


@pytest.fixture
def watching() -> Watching:
    """A view that has read a complete log with the pods a and b."""
    watching = Watching()
    watching.attach()
    watching.hears(seen("a"), seen("b"), marker())
    watching.view.caught_up()
    watching.story.clear()
    return watching


def test_an_empty_log_is_not_an_empty_cluster(watching: Watching):
    watching.reads_anew("new log")
    watching.view.caught_up()

    assert watching.story == []
    assert watching.view.unsynced == ("pod",)
    assert set(watching.view.objects("pod")) == {("ns", "a"), ("ns", "b")}


def test_what_the_new_log_lacks_is_gone_once_its_marker_is_there(watching: Watching):
    watching.reads_anew("new log")
    watching.view.caught_up()
    watching.hears(seen("a"), marker("new log"))

    assert watching.story == ["a changed as u1 v", "b gone as u1 v", "pod synced"]


def test_a_marker_of_another_log_syncs_nothing(watching: Watching):
    watching.reads_anew("new log")
    watching.view.caught_up()
    watching.hears(marker("log"))

    assert watching.story == []
    assert watching.view.unsynced == ("pod",)


def test_a_marker_does_not_sweep_what_was_overtaken_by_a_newer_fact_behind_it(watching: Watching):
    """The log has one message per subject: who lags meets `a` only behind the marker."""
    watching.reads_anew("new log")
    watching.view.caught_up()
    watching.hears(seen("b"), marker("new log"), pending=1)

    assert watching.view.unsynced == ("pod",)

    watching.hears(seen("a", version="2"))

    assert watching.story == ["b changed as u1 v", "a changed as u1 v", "pod synced"]


def test_a_replay_of_the_same_log_trusts_only_a_marker_that_it_meets_again(watching: Watching):
    """The log may have lost its end, and the marker with it."""
    watching.reads_anew()

    assert watching.view.unsynced == ("pod",)

    watching.hears(seen("a"))
    watching.view.caught_up()

    assert watching.story == ["a changed as u1 v"]
    assert watching.view.unsynced == ("pod",)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\xc1",
        msgspec.msgpack.encode({"type": "object.seen.v2", "name": "a"}),
        codec.encode(seen("a", value=5)),
    ],
    ids=["undecodable", "of an unknown type", "with a projection that can't be read"],
)
def test_an_object_whose_fact_cannot_be_read_stays_as_it_was_known(
    watching: Watching, rubbish: bytes
):
    watching.reads_anew()
    watching.hears(rubbish, marker())
    watching.view.caught_up()

    assert watching.story[-2:] == ["b gone as u1 v", "pod synced"]
    assert watching.view.get("pod", "ns", "a") is not None


def test_a_tombstone_whose_projection_cannot_be_read_is_still_an_end(watching: Watching):
    watching.hears(gone("a", value={}))

    assert watching.view.get("pod", "ns", "a") is None
    assert watching.story[-1] == "a gone as u1 v"
    assert watching.story[0].startswith("unreadable: its projection")


def test_a_tombstone_completes_what_was_known_of_the_object(watching: Watching):
    watching.hears(gone("a", value="exit 3"))

    assert watching.story == ["a gone as u1 v, exit 3"]
    assert watching.deltas[-1].old is not None
    assert watching.deltas[-1].old.object == "v"


def test_a_tombstone_that_says_nothing_ends_the_object_as_it_was_known(watching: Watching):
    watching.hears(gone("a", value=None))

    assert watching.story == ["a gone as u1 v"]
    assert watching.deltas[-1].ended is not None
    assert watching.deltas[-1].ended.resource_version == "9"


def test_another_uid_under_one_name_is_an_end_and_a_beginning(watching: Watching):
    watching.hears(seen("a", "w", uid="u2"))

    assert watching.story == ["a gone as u1 v", "a added as u2 w"]


def test_the_tombstone_of_an_unseen_successor_ends_the_predecessor_as_it_was(watching: Watching):
    watching.hears(gone("a", "other", uid="u2"))

    assert watching.story == ["a gone as u1 v"]


def test_an_end_of_what_was_never_known_is_no_news(watching: Watching):
    watching.hears(gone("zzz"))

    assert watching.story == []


def test_a_message_that_comes_again_changes_nothing(watching: Watching):
    watching.view.apply(LogMessage("vc.state.pod.ns.a", 1, codec.encode(gone("a")), {}, 0, 0.0))

    assert watching.story == []


def test_a_view_goes_on_where_it_was_after_a_short_absence(watching: Watching):
    assert watching.attach(last=3, away_s=RESUME_LIMIT_S - 1) == 4
    assert watching.view.unsynced == ()


@pytest.mark.parametrize(
    ("incarnation", "last", "away_s"),
    [("new log", 3, 0.0), ("log", 2, 0.0), ("log", 3, RESUME_LIMIT_S)],
    ids=["another log", "a shorter log", "away for half of a tombstone's life"],
)
def test_a_view_starts_over_when_it_may_have_missed_something(
    watching: Watching, incarnation: str, last: int, away_s: float
):
    assert watching.attach(incarnation, last, away_s) == 1
    assert watching.view.unsynced == ("pod",)
    assert watching.view.position("pod") == 0


def test_a_view_starts_over_when_the_log_is_shorter_than_it_was_seen_to_be(watching: Watching):
    """It goes on beyond what was applied, and yet messages may be back that were passed by."""
    assert watching.attach(last=9) == 4
    assert watching.attach(last=8) == 1


def test_a_replay_that_was_interrupted_starts_over():
    watching = Watching()
    watching.attach()
    watching.hears(seen("a"), pending=5)

    assert watching.attach() == 1


def test_what_nobody_asked_for_is_skipped_but_counted_as_read(watching: Watching):
    node = ObjectSeen(kind="node", name="n", uid="u", resource_version="1", projection=packed(1))
    watching.hears(node, msgspec.msgpack.encode({"type": "weather.v1"}))

    assert watching.story == []
    assert watching.view.skipped_unknown == 1
    assert watching.view.sequence == 5


def test_a_marker_is_the_position_of_its_kind_also_of_one_that_is_not_kept(watching: Watching):
    watching.hears(seen("a", version="7"), marker(version="10"), marker(version="4", kind="job"))

    assert watching.view.position("pod") == 10
    assert watching.view.position("job") == 4
    assert watching.view.position("node") == 0


def test_a_position_counts_only_once_nothing_is_left_to_read(watching: Watching):
    """Who lags meets a fact only behind the position that covers it: it was overtaken."""
    watching.hears(marker(version="7"), pending=1)
    assert watching.view.position("pod") == 1

    watching.hears(seen("a", version="8"))
    assert watching.view.position("pod") == 7


def test_a_position_of_another_log_does_not_count(watching: Watching):
    watching.hears(marker("another log", version="7"))

    assert watching.view.position("pod") == 1


def test_a_position_that_goes_back_is_noticed(watching: Watching):
    watching.hears(marker(version="7"), marker(version="9"), marker(version="9"))
    assert watching.view.setbacks == 0

    watching.hears(marker(version="8"))
    assert (watching.view.setbacks, watching.view.position("pod")) == (1, 8)


def test_a_position_is_learnt_anew_when_the_view_starts_over(watching: Watching):
    watching.hears(marker(version="7"))
    watching.reads_anew()
    assert watching.view.position("pod") == 0

    watching.hears(seen("a"), marker(version="5"))
    watching.view.caught_up()
    assert (watching.view.setbacks, watching.view.position("pod")) == (0, 5)
