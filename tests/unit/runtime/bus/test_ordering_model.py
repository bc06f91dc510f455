"""The order of INTENT against a model: deliveries, fences, gangs, and owners that change.

The server delivers in order of sequence, repeats what was not acknowledged, and gives a new
owner everything that has not ended. The model knows what may be handed out at any moment, so
that too early, too late, twice and never are all found. Beside it, the steps of the queue are
counted: what one message costs must not depend on how many others wait.
"""

import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.runtime.bus import ordering
from stromboli.runtime.bus.ordering import AT_ONCE, Batch, Item, KeyedQueue, Parts, Run, Sender

KEYS = st.sampled_from(["job-a", "job-b", "job-c"])
SCHEDULER, CONTROLLERS, SHARD = ("scheduler", "-"), ("controllers", "-"), ("controllers", "jobs")
SENDERS = st.sampled_from([SCHEDULER, CONTROLLERS, SHARD])

Thing = Item[str]
Handed = tuple[str, tuple[int, ...], bool]
"""Key, sequences, complete."""


class OrderingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sequence = 0
        self.queue: KeyedQueue[str] = KeyedQueue()
        self.unfinished: list[Thing] = []
        self.delivered: set[int] = set()
        self.entered: list[Thing] = []
        """What has not ended and stands behind no fence of its sender, as it came in."""
        self.busy: list[Batch[str]] = []
        self.handed_out: set[int] = set()
        self.finished: set[int] = set()

    # What arrives.

    def _publish(
        self,
        key: str,
        sender: Sender,
        deadline: float = 0.0,
        parts: Parts | None = None,
        run: Run | None = None,
        *,
        is_fence: bool = False,
    ) -> None:
        self.sequence += 1
        payload = f"{key}#{self.sequence}"
        item = Item(self.sequence, key, payload, deadline, parts, sender, run, is_fence)
        self.unfinished.append(item)
        self._deliver(item)

    def _deliver(self, item: Thing) -> None:
        self.delivered.add(item.sequence)
        batches = self.queue.accept(item)
        self._is_handed_out(batches)

    @rule(key=KEYS, sender=SENDERS)
    def an_intent_arrives(self, key: str, sender: Sender) -> None:
        self._publish(key, sender)

    @rule(
        key=KEYS,
        sender=SENDERS,
        sort=st.sampled_from(["make", "delete"]),
        place=st.sampled_from(["pod-1", "pod-2", "pod-3"]),
    )
    def one_of_a_run_arrives(self, key: str, sender: Sender, sort: str, place: str) -> None:
        self._publish(key, sender, run=Run(sort, place))

    @rule(key=KEYS, size=st.sampled_from([3, AT_ONCE, AT_ONCE + 3]))
    def the_pods_of_a_job_arrive(self, key: str, size: int) -> None:
        for index in range(size):
            self._publish(key, CONTROLLERS, run=Run("make", f"member-{index}"))

    @rule(
        key=KEYS,
        sender=SENDERS,
        group=st.sampled_from(["gang-1", "gang-2"]),
        total=st.sampled_from([2, 3]),
        index=st.integers(0, 2),
        patience=st.sampled_from([0.0, 1.0, 5.0, float("nan")]),
    )
    def a_part_arrives(
        self, key: str, sender: Sender, group: str, total: int, index: int, patience: float
    ) -> None:
        """Also parts that come twice, too late, never, or that can't exist (2 of 2)."""
        parts = Parts(f"{group}/{total}", index, total)
        self._publish(key, sender, self.now + patience, parts)

    @rule(key=KEYS, total=st.sampled_from([2, 3]), interrupted=st.booleans())
    def a_whole_gang_arrives(self, key: str, total: int, interrupted: bool) -> None:
        group = f"whole-{self.sequence}"
        for index in range(total):
            self._publish(key, SCHEDULER, self.now + 5.0, Parts(group, index, total))
            if interrupted:
                self._publish(key, CONTROLLERS)

    @rule(sender=SENDERS)
    def a_fence_arrives(self, sender: Sender) -> None:
        self._publish("fence/" + "/".join(sender), sender, is_fence=True)

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def something_that_is_still_here_arrives_again(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.unfinished))

        again = Item(item.sequence, item.key, "again", 0.0, item.parts, item.sender, item.run)
        assert self.queue.accept(again) == []

    @rule()
    def another_owner_takes_over(self) -> None:
        """What has not ended comes back in order, to a queue that knows nothing."""
        self.queue = KeyedQueue()
        self.busy.clear()
        self.handed_out.clear()
        self.entered.clear()
        back, self.unfinished = self.unfinished, []
        for item in back:
            self.unfinished.append(item)
            self._deliver(item)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self._is_handed_out(self.queue.overdue(self.now), now=self.now)

    # What is handed out.

    def _is_handed_out(self, batches: list[Batch[str]], now: float | None = None) -> None:
        self._let_in()
        expected = self._may_start(now)
        found = [(b.key, tuple(i.sequence for i in b.items), b.complete) for b in batches]
        assert sorted(found) == sorted(expected)
        for batch in batches:
            sequences = {item.sequence for item in batch.items}
            assert not sequences & self.handed_out
            assert all(item.payload != "again" for item in batch.items)
            self.handed_out |= sequences
            self.busy.append(batch)

    def _let_in(self) -> None:
        """What has no fence of its sender before it stands in line with all others."""
        here = {item.sequence for item in self.unfinished}
        self.entered = [item for item in self.entered if item.sequence in here]
        entered = {item.sequence for item in self.entered}
        for item in self.unfinished:
            if item.sequence not in entered and not self._earlier(item, fences=True):
                self.entered.append(item)

    def _earlier(self, item: Thing, *, fences: bool) -> list[Thing]:
        """What the same sender has asked for before; of that, all or only the fences."""
        return [
            other
            for other in self.unfinished
            if (other.is_fence or not fences)
            and other.sender == item.sender
            and other.sequence < item.sequence
        ]

    def _may_start(self, now: float | None) -> set[Handed]:
        """Everything that the rules let start; without a time, no patience is over."""
        busy = {batch.key for batch in self.busy}
        expected: set[Handed] = {
            (item.key, (item.sequence,), True)
            for item in self.entered
            if item.is_fence and item.key not in busy and not self._earlier(item, fences=False)
        }
        for key in {item.key for item in self.entered if not item.is_fence}:
            of_key = [item for item in self.entered if item.key == key]
            run = self._first_run(of_key)
            if len(run) > 1 or (run and key in busy):
                fresh = [item for item in run if item.sequence not in self.handed_out]
                expected |= {(key, (item.sequence,), True) for item in fresh}
                continue
            if key in busy:
                continue
            of_sender = [item for item in of_key if item.sender == of_key[0].sender]
            group = self._first_group(of_sender)
            complete = self._is_complete(group)
            gone_on = len(group) < len(of_sender)
            fenced_off = any(i.is_fence and i.sender == of_key[0].sender for i in self.entered)
            late = now is not None and not now < group[0].deadline
            if complete or gone_on or fenced_off or late:
                expected.add((key, tuple(item.sequence for item in group), complete))
        return expected

    def _first_run(self, of_key: list[Thing]) -> list[Thing]:
        """What may be under way at once: of one sender and sort, no object twice, not too many.

        What has been handed out counts, whether or not something before it has ended since.
        """
        run: list[Thing] = []
        for item in of_key:
            if item.run is None or len(run) == AT_ONCE:
                break
            if any(self._has_order(item, other) for other in run):
                break
            run.append(item)
        return run

    def _has_order(self, one: Thing, other: Thing) -> bool:
        if one.run is None or other.run is None or one.sender != other.sender:
            return True
        return one.run.sort != other.run.sort or one.run.place == other.run.place

    def _first_group(self, of_sender: list[Thing]) -> list[Thing]:
        first = of_sender[0]
        if first.parts is None:
            return [first]
        group: list[Thing] = []
        for item in of_sender:
            if item.parts is None or item.parts.group != first.parts.group:
                break
            group.append(item)
            if self._is_complete(group):
                break
        return group

    def _is_complete(self, group: list[Thing]) -> bool:
        parts = [item.parts for item in group if item.parts is not None]
        return not parts or sorted({p.index for p in parts}) == list(range(parts[0].total))

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def something_ends(self, data: st.DataObject) -> None:
        self._finish(data.draw(st.sampled_from(self.busy)))

    def _finish(self, batch: Batch[str]) -> None:
        ended = {item.sequence for item in batch.items}
        self.busy.remove(batch)
        self.unfinished = [item for item in self.unfinished if item.sequence not in ended]
        self._nothing_was_overtaken(batch)
        assert not ended & self.finished
        self.finished |= ended
        self._is_handed_out(self.queue.finish(batch))

    def _nothing_was_overtaken(self, batch: Batch[str]) -> None:
        first, last = batch.items[0], batch.items[-1]
        # Only the later parts of a gang pass by what others have sent in between, and only
        # the members of a run pass by each other.
        here = {item.sequence for item in self.unfinished}
        before = itertools.takewhile(lambda item: item is not first, self.entered)
        assert not [
            item
            for item in before
            if item.sequence in here and item.key == first.key and self._has_order(first, item)
        ]
        assert not [
            item
            for item in self._earlier(last, fences=False)
            if (item.key == first.key and self._has_order(first, item))
            or item.is_fence
            or first.is_fence
        ]

    # What must hold at any time.

    @invariant()
    def everything_that_has_not_ended_is_here_once(self) -> None:
        assert len(self.queue) == len(self.unfinished)
        here = sorted(self.queue._here)
        assert here == [item.sequence for item in self.unfinished]

    def teardown(self) -> None:
        """Nothing is lost: with time, everything is handed out and ends."""
        rounds = 0
        while self.unfinished:
            rounds += 1
            assert rounds <= self.sequence + 1, "the queue is stuck"
            self.time_passes(100.0)
            for batch in tuple(self.busy):
                self._finish(batch)

        self.time_passes(100.0)
        assert self.finished == self.delivered == set(range(1, self.sequence + 1))
        remembered = (self.queue._lines, self.queue._asked, self.queue._deadlines)
        assert not any(remembered)


OrderingMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
test_order_is_kept_per_key_and_nothing_is_lost = OrderingMachine.TestCase


def test_a_gang_that_claims_a_billion_parts_costs_nothing():
    queue: KeyedQueue[str] = KeyedQueue()

    assert queue.accept(Item(1, "job", "part", 5.0, Parts("gang", 0, 10**9))) == []
    assert queue.overdue(4.9) == []
    assert [batch.complete for batch in queue.overdue(5.0)] == [False]


# What a message costs.


def steps_of(work: Callable[[], None]) -> int:
    """How many instructions of the queue's own module this runs, in loops and calls alike."""
    steps = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != ordering.__file__:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


Story = Callable[[int], list[Thing]]


def many_jobs(count: int) -> list[Thing]:
    return [Item(n, f"job-{n % (count // 4)}", "", 1e9) for n in range(count)]


def one_job_of_many_patches(count: int) -> list[Thing]:
    return [Item(n, "job", "", 1e9) for n in range(count)]


def one_job_of_many_pods(count: int) -> list[Thing]:
    return [Item(n, "job", "", 1e9, run=Run("make", f"pod-{n}")) for n in range(count)]


def many_gangs_without_their_last_part(count: int) -> list[Thing]:
    return [Item(n, f"job-{n}", "", 1e9 - n, Parts("gang", 0, 2)) for n in range(count)]


def one_gang_of_many_parts(count: int) -> list[Thing]:
    return [Item(n, "job", "", 1e9, Parts("gang", n, count)) for n in range(count)]


def many_wait_behind_one_incomplete_gang(count: int) -> list[Thing]:
    gang: Thing = Item(0, "job", "", 1e9, Parts("gang", 0, 2), SCHEDULER)
    return [gang] + [Item(n, "job", "", 1e9, sender=CONTROLLERS) for n in range(1, count)]


def gangs_of_two_senders_in_turn(count: int) -> list[Thing]:
    senders = (SCHEDULER, CONTROLLERS)
    return [Item(n, "job", "", 1e9, Parts(f"gang-{n}", 0, 2), senders[n % 2]) for n in range(count)]


def many_wait_behind_a_fence(count: int) -> list[Thing]:
    items: list[Thing] = [Item(n, f"job-{n}", "", 1e9) for n in range(1, count)]
    return [Item(0, "fence", "", 1e9, is_fence=True), *items]


def many_fences(count: int) -> list[Thing]:
    return [Item(n, "fence", "", 1e9, is_fence=True) for n in range(count)]


def a_fence_behind_many_gangs(count: int) -> list[Thing]:
    gangs = many_gangs_without_their_last_part(count - 1)
    return [*gangs, Item(count, "fence", "", 1e9, is_fence=True)]


@pytest.mark.parametrize(
    "story",
    [
        many_jobs,
        one_job_of_many_patches,
        one_job_of_many_pods,
        many_gangs_without_their_last_part,
        one_gang_of_many_parts,
        many_wait_behind_one_incomplete_gang,
        gangs_of_two_senders_in_turn,
        many_wait_behind_a_fence,
        many_fences,
        a_fence_behind_many_gangs,
    ],
)
def test_what_a_message_costs_does_not_depend_on_how_many_wait(story: Story):
    few, many = (steps_per_message(story(count)) for count in (64, 1024))

    assert many < 1.3 * few


def steps_per_message(items: list[Thing]) -> float:
    """All arrive, as fast as they can; then each that is handed out ends, oldest first."""
    queue: KeyedQueue[str] = KeyedQueue()

    def work() -> None:
        busy: list[Batch[str]] = []
        for item in items:
            busy += queue.accept(item)
            busy += queue.overdue(0.0)
        while len(queue):
            busy += queue.overdue(0.0) if busy else queue.overdue(1e10)
            busy += queue.finish(busy.pop(0))

    return steps_of(work) / len(items)
