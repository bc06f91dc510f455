"""What the gateway knows of what was answered: ends, versions, and binds that are not certain.

The machine at the end plays a log with several gateways that write to it, a reader that lags
behind and starts anew, and a watch that shows pods at any moment.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.intents import Verb
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    AssumedPod,
    GangBound,
    GatewayTurn,
    OutcomeMessage,
    PodBound,
)
from stromboli.gateway.answered import AnsweredLog
from stromboli.runtime.bus.reader import LogMessage, LogPosition
from stromboli.testkit.effort import examples

FIRST, SECOND = Epoch(1, 10), Epoch(1, 20)
SCHEDULER, CONTROLLERS = ("scheduler", "-"), ("controllers", "-")


def turn(gateway: Epoch, service: str = "scheduler") -> GatewayTurn:
    return GatewayTurn(service=service, gateway=gateway)


def written(intent_id: str, version: str = "", *, gateway: Epoch = FIRST, **other: Any) -> Applied:
    fields: dict[str, Any] = {
        "service": "scheduler",
        "verb": Verb.PATCH,
        "kind": "vcpodgroup",
        "key": "vcjob/ns/job",
        "name": "job",
        **other,
    }
    return Applied(intent_id=intent_id, gateway=gateway, resource_version=version, **fields)


def gang(
    intent_id: str,
    *pods: PodBound,
    gateway: Epoch = FIRST,
    version: str = "",
    service: str = "scheduler",
) -> GangBound:
    return GangBound(
        intent_id=intent_id,
        service=service,
        verb=Verb.BIND,
        kind="pod",
        key="vcjob/ns/job",
        gateway=gateway,
        namespace="ns",
        name="group",
        attempt="1",
        part=0,
        parts=1,
        pods=pods,
        resource_version=version,
    )


def pod(uid: str, how: str) -> PodBound:
    is_bound, is_uncertain = how == "bound", how == "uncertain"
    return PodBound(name=uid, uid=uid, node="n1", bound=is_bound, uncertain=is_uncertain)


def assumed(uid: str) -> AssumedPod:
    return AssumedPod("ns", uid, uid, "n1")


@dataclass
class Log:
    """OUTCOME, read at once."""

    answered: AnsweredLog = field(default_factory=AnsweredLog)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.attach()
        self.answered.caught_up()

    def attach(self, incarnation: str = "log", last: int | None = None) -> int:
        last = self.sequence if last is None else last
        return self.answered.attach(LogPosition(incarnation, last, 0.0))

    def brings(self, *messages: OutcomeMessage | bytes) -> None:
        for message in messages:
            self.sequence += 1
            payload = message if isinstance(message, bytes) else codec.encode(message)
            self.answered.apply(LogMessage("vc.outcome.x", self.sequence, payload, {}, 0, 0.0))


@pytest.fixture
def log() -> Log:
    """The first gateway has announced its turn."""
    log = Log()
    log.brings(turn(FIRST))
    return log


# Whose answers count.


def test_an_answer_counts_in_the_turn_of_its_gateway_only(log: Log):
    log.brings(
        written("before", gateway=SECOND),
        turn(SECOND),
        written("late", gateway=FIRST),
        written("right", gateway=SECOND),
    )

    assert "before" not in log.answered
    assert "late" not in log.answered
    assert "right" in log.answered
    assert log.answered.turn_of("scheduler") == SECOND


def test_a_turn_is_announced_to_each_service_for_itself(log: Log):
    log.brings(written("other", service="controllers"))
    assert "other" not in log.answered
    assert log.answered.turn_of("controllers") is None

    log.brings(turn(FIRST, "controllers"), written("again", service="controllers"))

    assert "again" in log.answered


def test_a_late_answer_neither_settles_a_bind_nor_makes_it_uncertain(log: Log):
    log.brings(gang("one", pod("a", "uncertain")), turn(SECOND))
    log.brings(gang("two", pod("a", "bound")), gang("three", pod("b", "uncertain")))

    assert log.answered.assumed(SCHEDULER) == (assumed("a"),)


def test_what_cannot_be_read_is_passed_by(log: Log):
    log.brings(b"\xc1", written("one"))

    assert "one" in log.answered
    assert log.answered.knows_all("log", 3)


# What has ended.


def test_the_newest_answers_are_remembered_and_no_more_of_them():
    log = Log(AnsweredLog(remembered=3))
    log.brings(turn(FIRST), *(written(f"i{number}") for number in range(5)))

    assert len(log.answered) == 3
    assert [f"i{number}" in log.answered for number in range(5)] == [False, False, True, True, True]


def test_all_is_known_when_the_log_was_read_to_its_end():
    answered = AnsweredLog()
    assert not answered.knows_all("log", 0)

    answered.attach(LogPosition("log", 2, 0.0))
    assert not answered.knows_all("log", 0)

    answered.caught_up()

    assert answered.knows_all("log", 0)
    assert not answered.knows_all("another log", 0)
    assert not answered.knows_all("log", 1)


def test_reading_goes_on_where_it_was_and_begins_where_the_memory_begins(log: Log):
    log.brings(written("one"))
    assert log.attach(last=9) == 3

    fresh = AnsweredLog(remembered=100)
    assert fresh.attach(LogPosition("log", 250, 0.0)) == 151


def test_a_log_that_lost_its_end_is_read_from_where_it_ends_now(log: Log):
    log.brings(written("one"), written("two"))

    assert log.attach(last=1) == 2


def test_another_log_makes_everything_unknown(log: Log):
    log.brings(written("one", "7"), gang("two", pod("a", "uncertain")))
    log.sequence = 0

    assert log.attach("new log") == 1
    assert "one" not in log.answered
    assert log.answered.versions(SCHEDULER) == {}
    assert log.answered.assumed(SCHEDULER) == ()
    assert log.answered.turn_of("scheduler") is None


# Versions.


def test_the_highest_version_of_each_kind_is_known_per_sender(log: Log):
    log.brings(
        turn(FIRST, "controllers"),
        written("1", "9"),
        written("2", "10"),
        written("3", "8"),
        written("4", "3", kind="queue"),
        written("5", ""),
        written("6", "99", service="controllers"),
        written("7", "77", shard="east"),
        gang("8", pod("a", "bound"), version="5"),
        gang("9", pod("b", "bound")),
    )

    assert log.answered.versions(SCHEDULER) == {"vcpodgroup": "10", "queue": "3", "pod": "5"}
    assert log.answered.versions(CONTROLLERS) == {"vcpodgroup": "99"}
    assert log.answered.versions(("scheduler", "east")) == {"vcpodgroup": "77"}
    assert log.answered.versions(("scheduler", "west")) == {}


def test_what_a_restored_api_server_never_had_is_not_waited_for(log: Log):
    log.brings(written("1", "900"), written("2", "20", kind="queue"))
    log.answered.forget_beyond("vcpodgroup", 500)
    log.answered.forget_beyond("queue", 500)

    assert log.answered.versions(SCHEDULER) == {"vcpodgroup": "500", "queue": "20"}


# Binds.


def test_a_bind_is_uncertain_until_a_certain_answer_settles_it(log: Log):
    log.brings(gang("1", pod("a", "uncertain"), pod("b", "uncertain"), pod("c", "bound")))

    assert log.answered.assumed(SCHEDULER) == (assumed("a"), assumed("b"))
    assert log.answered.assumed(CONTROLLERS) == ()
    assert log.answered.is_uncertain("a")
    assert not log.answered.is_uncertain("c")

    log.brings(gang("2", pod("a", "bound")), gang("3", pod("b", "not bound")))

    assert log.answered.assumed(SCHEDULER) == ()


def test_a_bind_is_uncertain_until_the_watch_shows_the_pod_placed_or_gone(log: Log):
    log.brings(gang("1", pod("a", "uncertain")))
    log.answered.settled("never asked for")
    assert log.answered.is_uncertain("a")

    log.answered.settled("a")

    assert not log.answered.is_uncertain("a")
    assert log.answered.assumed(SCHEDULER) == ()


def test_a_bind_that_is_asked_for_again_belongs_to_who_asked_last(log: Log):
    log.brings(turn(FIRST, "controllers"), gang("1", pod("a", "uncertain")))
    log.brings(gang("2", pod("a", "uncertain"), service="controllers"))

    assert log.answered.assumed(SCHEDULER) == ()
    assert log.answered.assumed(CONTROLLERS) == (assumed("a"),)


def test_no_more_binds_are_uncertain_than_answers_are_remembered():
    log = Log(AnsweredLog(remembered=2))
    log.brings(turn(FIRST), *(gang(uid, pod(uid, "uncertain")) for uid in "abc"))

    assert log.answered.assumed(SCHEDULER) == (assumed("b"), assumed("c"))


def test_the_log_bringing_back_our_own_answer_does_not_undo_what_the_watch_showed(log: Log):
    """Whichever comes first, the acknowledgement or the message itself."""
    acknowledged_first = gang("1", pod("a", "uncertain"))
    log.answered.note(acknowledged_first)
    log.answered.settled("a")
    log.brings(acknowledged_first)

    assert not log.answered.is_uncertain("a")

    read_first = gang("2", pod("b", "uncertain"))
    log.brings(read_first)
    log.answered.settled("b")
    log.answered.note(read_first)

    assert not log.answered.is_uncertain("b")


def test_an_older_answer_that_the_log_brings_back_does_not_undo_a_newer_one(log: Log):
    older, newer = gang("1", pod("a", "uncertain")), gang("2", pod("a", "bound"))
    log.answered.note(older)
    log.answered.note(newer)
    log.brings(older)

    assert not log.answered.is_uncertain("a")


# All of it, in any order.

UIDS = st.sampled_from(["a", "b", "c"])
HOW = st.sampled_from(["bound", "uncertain", "not bound"])


class Told(msgspec.Struct):
    """An answer that counts and that the gateway under test has heard of."""

    outcome: GangBound | Applied
    shown_since: set[str] = msgspec.field(default_factory=set[str])
    """Pods that the watch has shown placed or gone after that."""


class AnsweringMachine(RuleBasedStateMachine):
    """The gateway under test leads in the first turn and is deposed, or begins a turn, at will."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[OutcomeMessage] = []
        self.read_up_to = 0
        self.ids = 0
        self.leader = 0
        self.unacknowledged: list[AnyOutcome] = []
        self.told: dict[str, Told] = {}
        """By intent, in the order in which it was heard of first."""
        self.answered = AnsweredLog()
        self.answered.attach(LogPosition("log", 0, 0.0))
        self._append(turn(self._epoch))

    @property
    def _epoch(self) -> Epoch:
        return Epoch(1, 10 + self.leader)

    def _append(self, message: OutcomeMessage) -> None:
        self.log.append(message)

    def _hears_of(self, outcome: AnyOutcome) -> None:
        assert isinstance(outcome, GangBound | Applied)
        self.told.setdefault(outcome.intent_id, Told(outcome))

    @rule(uids=st.sets(UIDS, min_size=1), how=HOW, version=st.integers(1, 99))
    def a_gang_is_answered(self, uids: set[str], how: str, version: int) -> None:
        self.ids += 1
        newest = str(version) if how == "bound" else ""
        pods = [pod(uid, how) for uid in sorted(uids)]
        outcome = gang(f"i{self.ids}", *pods, gateway=self._epoch, version=newest)
        self._append(outcome)
        self.unacknowledged.append(outcome)

    @rule(version=st.integers(1, 99))
    def a_write_is_answered(self, version: int) -> None:
        self.ids += 1
        outcome = written(f"i{self.ids}", str(version), gateway=self._epoch)
        self._append(outcome)
        self.unacknowledged.append(outcome)

    @precondition(lambda self: self.unacknowledged)
    @rule()
    def its_acknowledgement_arrives(self) -> None:
        outcome = self.unacknowledged.pop(0)
        self.answered.note(outcome)
        self._hears_of(outcome)

    @rule(count=st.integers(1, 4))
    def the_log_is_read(self, count: int) -> None:
        for message in self.log[self.read_up_to : self.read_up_to + count]:
            self.read_up_to += 1
            payload = codec.encode(message)
            self.answered.apply(LogMessage("x", self.read_up_to, payload, {}, 0, 0.0))
            if not isinstance(message, GatewayTurn) and self._counts(self.read_up_to - 1):
                self._hears_of(message)

    def _counts(self, index: int) -> bool:
        """Is this outcome of the last turn before it?"""
        turns = [one for one in self.log[:index] if isinstance(one, GatewayTurn)]
        outcome = self.log[index]
        assert not isinstance(outcome, GatewayTurn)
        return turns[-1].gateway == outcome.gateway

    @rule()
    def a_frozen_gateway_answers_late(self) -> None:
        self.ids += 1
        self._append(gang(f"i{self.ids}", pod("a", "uncertain"), gateway=Epoch(1, 1)))

    @precondition(lambda self: not self.unacknowledged)
    @rule()
    def a_turn_begins(self) -> None:
        """What was not acknowledged had been heard of: a leader waits for its answers."""
        self.leader += 1
        self._append(turn(self._epoch))

    @rule(uid=UIDS)
    def the_watch_shows_a_pod(self, uid: str) -> None:
        self.answered.settled(uid)
        for told in self.told.values():
            told.shown_since.add(uid)

    @rule()
    def the_reader_attaches_again(self) -> None:
        first = self.answered.attach(LogPosition("log", len(self.log), 0.0))
        assert first == self.read_up_to + 1

    @invariant()
    def what_was_heard_of_has_ended(self) -> None:
        assert len(self.answered) == len(self.told)
        assert all(intent_id in self.answered for intent_id in self.told)

    @invariant()
    def a_bind_is_uncertain_while_its_last_answer_is_and_nothing_was_shown_since(self) -> None:
        for uid in ("a", "b", "c"):
            last = [told for told in self.told.values() if self._pod(told, uid) is not None][-1:]
            expected = any(
                found.uncertain and uid not in told.shown_since
                for told in last
                if (found := self._pod(told, uid)) is not None
            )
            assert self.answered.is_uncertain(uid) == expected
            assert (assumed(uid) in self.answered.assumed(SCHEDULER)) == expected

    def _pod(self, told: Told, uid: str) -> PodBound | None:
        if not isinstance(told.outcome, GangBound):
            return None
        return next((one for one in told.outcome.pods if one.uid == uid), None)

    @invariant()
    def the_versions_are_the_highest_that_were_heard_of(self) -> None:
        expected: dict[str, int] = {}
        for told in self.told.values():
            version = int(told.outcome.resource_version or 0)
            kind = told.outcome.kind
            expected[kind] = max(version, expected.get(kind, 0))
        found = {kind: int(version) for kind, version in self.answered.versions(SCHEDULER).items()}
        assert found == {kind: version for kind, version in expected.items() if version}

    def teardown(self) -> None:
        """A standby that reads the same log from its beginning knows the same ends."""
        while self.unacknowledged:
            self.its_acknowledgement_arrives()
        self.the_log_is_read(len(self.log))
        for uid in ("a", "b", "c"):
            self.the_watch_shows_a_pod(uid)
        assert self.answered.assumed(SCHEDULER) == ()
        standby = AnsweredLog()
        standby.attach(LogPosition("log", len(self.log), 0.0))
        for sequence, message in enumerate(self.log, 1):
            standby.apply(LogMessage("x", sequence, codec.encode(message), {}, 0, 0.0))
        assert standby.versions(SCHEDULER) == self.answered.versions(SCHEDULER)
        assert all(intent_id in standby for intent_id in self.told)
        assert len(standby) == len(self.answered)


AnsweringMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
test_what_is_not_certain_stays_so_until_an_answer_or_the_watch_says_more = AnsweringMachine.TestCase
