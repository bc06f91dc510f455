"""The order of a partition against a model: deliveries, fences, gangs, and owners that change.

The server delivers in order of sequence, repeats what was not acknowledged, and gives a new
owner everything that has not ended. The model knows what may be handed out at any moment, so
that too early, too late, twice and never are all found.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stromboli.runtime.bus.ordering import AT_ONCE, BARRIER, Batch, Item, KeyedQueue, Parts, Run

KEYS = st.sampled_from(["job-a", "job-b", "job-c"])
SENDERS = st.sampled_from(["scheduler", "controllers"])

Thing = Item[str]


class OrderingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sequence = 0
        self.queue: KeyedQueue[str] = KeyedQueue()
        self.unfinished: list[Thing] = []
        self.delivered: set[int] = set()
        self.busy: list[Batch[str]] = []
        self.handed_out: set[int] = set()
        self.finished: set[int] = set()

    # What arrives.

    def _publish(
        self,
        key: str,
        sender: str,
        deadline: float = 0.0,
        parts: Parts | None = None,
        run: Run | None = None,
    ) -> None:
        self.sequence += 1
        payload = f"{key}#{self.sequence}"
        item = Item(self.sequence, key, payload, deadline, parts, sender, run)
        self.unfinished.append(item)
        self._deliver(item)

    def _deliver(self, item: Thing) -> None:
        assert self.queue.accept(item)
        self.delivered.add(item.sequence)

    @rule(key=KEYS, sender=SENDERS)
    def an_intent_arrives(self, key: str, sender: str) -> None:
        self._publish(key, sender)

    @rule(
        key=KEYS,
        sender=SENDERS,
        sort=st.sampled_from(["make", "delete"]),
        place=st.sampled_from(["pod-1", "pod-2", "pod-3"]),
    )
    def one_of_a_run_arrives(self, key: str, sender: str, sort: str, place: str) -> None:
        self._publish(key, sender, run=Run(sort, place))

    @rule(key=KEYS, size=st.sampled_from([3, AT_ONCE, AT_ONCE + 3]))
    def the_pods_of_a_job_arrive(self, key: str, size: int) -> None:
        for index in range(size):
            self._publish(key, "controllers", run=Run("make", f"member-{index}"))

    @rule(
        key=KEYS,
        sender=SENDERS,
        group=st.sampled_from(["gang-1", "gang-2"]),
        total=st.sampled_from([2, 3]),
        index=st.integers(0, 2),
        patience=st.sampled_from([0.0, 1.0, 5.0, float("nan")]),
    )
    def a_part_arrives(
        self, key: str, sender: str, group: str, total: int, index: int, patience: float
    ) -> None:
        """Also parts that come twice, too late, never, or that can't exist (2 of 2)."""
        parts = Parts(f"{group}/{total}", index, total)
        self._publish(key, sender, self.now + patience, parts)

    @rule(key=KEYS, total=st.sampled_from([2, 3]), interrupted=st.booleans())
    def a_whole_gang_arrives(self, key: str, total: int, interrupted: bool) -> None:
        group = f"whole-{self.sequence}"
        for index in range(total):
            self._publish(key, "scheduler", self.now + 5.0, Parts(group, index, total))
            if interrupted:
                self._publish(key, "controllers")

    @rule()
    def a_fence_arrives(self) -> None:
        self._publish(BARRIER, "scheduler")

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def something_that_is_still_here_arrives_again(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.unfinished))

        again = Item(item.sequence, item.key, "again", 0.0, item.parts, item.sender, item.run)
        assert not self.queue.accept(again)

    @rule()
    def another_owner_takes_over(self) -> None:
        """What has not ended comes back in order, to a queue that knows nothing."""
        self.queue = KeyedQueue()
        self.busy.clear()
        self.handed_out.clear()
        for item in self.unfinished:
            self._deliver(item)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # What is handed out.

    @rule()
    def what_is_ready_is_handed_out(self) -> None:
        expected = self._may_start()

        batches = self.queue.ready(self.now)

        found = [(b.key, tuple(i.sequence for i in b.items), b.complete) for b in batches]
        assert sorted(found) == sorted(expected)
        for batch in batches:
            sequences = {item.sequence for item in batch.items}
            assert not sequences & self.handed_out
            assert all(item.payload != "again" for item in batch.items)
            self.handed_out |= sequences
            self.busy.append(batch)

    def _may_start(self) -> set[tuple[str, tuple[int, ...], bool]]:
        """(key, sequences, complete) of everything that the rules let start now."""
        fences = [item for item in self.unfinished if item.key == BARRIER]
        limit = fences[0].sequence if fences else self.sequence + 1
        before = [item for item in self.unfinished if item.sequence < limit]
        if not before and fences and not self.busy:
            return {(BARRIER, (limit,), True)}
        busy = {batch.key for batch in self.busy}
        expected: set[tuple[str, tuple[int, ...], bool]] = set()
        for key in {item.key for item in before}:
            of_key = [item for item in before if item.key == key]
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
            hopeless = gone_on or bool(fences) or not self.now < group[0].deadline
            if complete or hopeless:
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
        return group

    def _is_complete(self, group: list[Thing]) -> bool:
        parts = [item.parts for item in group if item.parts is not None]
        return not parts or sorted({p.index for p in parts}) == list(range(parts[0].total))

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def something_ends(self, data: st.DataObject) -> None:
        self._finish(data.draw(st.sampled_from(self.busy)))

    def _finish(self, batch: Batch[str]) -> None:
        self.queue.finish(batch)
        self.busy.remove(batch)
        ended = {item.sequence for item in batch.items}
        rest = [item for item in self.unfinished if item.sequence not in ended]
        concerned = [
            item for item in rest if batch.key in (item.key, BARRIER) or item.key == BARRIER
        ]
        # Only the later parts of a gang pass by what others have sent in between, and only
        # the members of a run pass by each other.
        first = batch.items[0]
        concerned = [item for item in concerned if self._has_order(first, item)]
        assert all(item.sequence > min(ended) for item in concerned)
        sender = first.sender
        assert all(item.sequence > max(ended) for item in concerned if item.sender == sender)
        assert not ended & self.finished
        self.finished |= ended
        self.unfinished = rest

    # What must hold at any time.

    @invariant()
    def everything_that_has_not_ended_is_here_once(self) -> None:
        assert len(self.queue) == len(self.unfinished)
        here = sorted(item.sequence for item in self.queue.items)
        assert here == [item.sequence for item in self.unfinished]

    @invariant()
    def the_queue_wakes_up_for_a_gang_that_waits(self) -> None:
        """Nothing that could start later by time alone is missing from the next deadline."""
        deadline = self.queue.next_deadline()
        if deadline is None or not self.now < deadline:
            return
        later, self.now = self.now, deadline
        could_start = self._may_start()
        self.now = later
        assert could_start

    def teardown(self) -> None:
        """Nothing is lost: with time, everything is handed out and ends."""
        self.now += 100.0
        rounds = 0
        while self.unfinished:
            rounds += 1
            assert rounds <= self.sequence + 1, "the queue is stuck"
            self.what_is_ready_is_handed_out()
            for batch in tuple(self.busy):
                self._finish(batch)

        assert self.queue.ready(self.now) == []
        assert self.finished == self.delivered == set(range(1, self.sequence + 1))


OrderingMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
test_order_is_kept_per_key_and_nothing_is_lost = OrderingMachine.TestCase


def test_a_gang_that_claims_a_billion_parts_costs_nothing():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.accept(Item(1, "job", "part", 5.0, Parts("gang", 0, 10**9)))

    assert queue.ready(0.0) == []
    assert queue.next_deadline() == 5.0
    assert [batch.complete for batch in queue.ready(5.0)] == [False]
