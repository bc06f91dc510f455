"""The tree of hierarchical fair sharing, by numbers that can be checked by hand."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.drf_tree import ShareTree
from stromboli.scheduling.pods import JobKey
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.session import Session

TOTAL = {"cpu": 10, "memory": 10}


@dataclass
class StandIn:
    """As much of a job as the tree looks at."""

    queue: str
    allocated: dict[str, int]
    requested: dict[str, int]
    pod_group: object = field(default_factory=object)


def planted(queues: dict[str, tuple[str, str]], jobs: dict[str, StandIn]) -> ShareTree:
    tree = ShareTree()
    tree.replant(
        {
            name: QueueInfo(
                name,
                hierarchy=tuple(path.split("/")),
                hierarchy_weights=tuple(float(weight) for weight in weights.split("/")),
            )
            for name, (path, weights) in queues.items()
        }
    )
    session: Any = cast("Session", _Opened({("test", name): job for name, job in jobs.items()}))
    tree.rebase(session, TOTAL)
    return tree


@dataclass
class _Opened:
    jobs: dict[JobKey, StandIn]
    nodes_changed: bool = True

    @property
    def dirty(self) -> list[JobKey]:
        return list(self.jobs)

    def queue_of(self, job: StandIn) -> str:
        return job.queue


def test_who_has_less_by_weight_comes_first():
    tree = planted(
        {"a": ("root/a", "1/1"), "b": ("root/b", "1/4")},
        {
            "one": StandIn("a", {"cpu": 1}, {"cpu": 9}),
            "two": StandIn("b", {"cpu": 2}, {"cpu": 9}),
        },
    )

    assert tree.order("a") == ((False, 0.1),)
    assert tree.order("b") == ((False, 0.05),)


def test_who_is_served_comes_last():
    tree = planted(
        {"a": ("root/a", "1/1"), "b": ("root/b", "1/1")},
        {
            "one": StandIn("a", {"cpu": 1}, {"cpu": 1}),
            "two": StandIn("b", {"cpu": 5}, {"cpu": 9}),
        },
    )

    assert tree.order("b") < tree.order("a")


def test_a_branch_counts_its_children_as_the_one_that_has_least():
    """dev has 4 of cpu, prod 1 of memory; both still want: each counts as a tenth."""
    tree = planted(
        {"dev": ("root/eng/dev", "1/1/1"), "prod": ("root/eng/prod", "1/1/1")},
        {
            "one": StandIn("dev", {"cpu": 4}, {"cpu": 9}),
            "two": StandIn("prod", {"memory": 1}, {"memory": 9}),
        },
    )

    eng, dev = tree.order("dev")

    assert eng == (False, 0.1)
    assert dev == (False, 0.4)


def test_a_child_that_is_served_counts_with_all_it_has():
    tree = planted(
        {"dev": ("root/eng/dev", "1/1/1"), "prod": ("root/eng/prod", "1/1/1")},
        {
            "one": StandIn("dev", {"cpu": 4}, {"cpu": 4}),
            "two": StandIn("prod", {"cpu": 1}, {"cpu": 9}),
        },
    )

    assert tree.order("prod")[0] == (False, 0.5)


def test_who_wants_what_is_used_up_is_as_good_as_served():
    tree = planted(
        {"a": ("root/a", "1/1"), "b": ("root/b", "1/1")},
        {
            "one": StandIn("a", {"cpu": 10}, {"cpu": 20}),
            "two": StandIn("b", {}, {"memory": 5}),
        },
    )

    assert tree.order("a")[0][0] is True
    assert tree.order("b")[0][0] is False


def test_what_moves_is_seen_and_can_be_undone():
    tree = planted({"a": ("root/a", "1/1")}, {"one": StandIn("a", {"cpu": 1}, {"cpu": 9})})
    before = tree.order("a")

    tree.move(("test", "one"), (("cpu", 1),), 2)
    moved = tree.order("a")
    tree.move(("test", "one"), (("cpu", 1),), -2)

    assert (before, moved, tree.order("a")) == (((False, 0.1),), ((False, 0.3),), before)


def test_a_queue_that_draws_no_path_is_a_branch_under_the_root():
    tree = ShareTree()
    tree.replant(
        {
            "plain": QueueInfo("plain"),
            "alone": QueueInfo("alone", hierarchy=("root",), hierarchy_weights=(1.0,)),
        }
    )

    assert tree.order("plain") == ((True, 0.0),)
    assert tree.order("unheard") == ((True, 0.0),)


# Thousands of jobs.

QUEUES = {
    "a": ("root/x/a", "1/2/1"),
    "b": ("root/x/b", "1/2/3"),
    "c": ("root/c", "1/1"),
}
AMOUNTS = st.integers(0, 3)
JOBS = st.lists(
    st.tuples(st.sampled_from(sorted(QUEUES)), AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS), max_size=8
)
MOVES = st.lists(
    st.tuples(
        st.integers(0, 7), st.sampled_from(["cpu", "memory"]), st.integers(-3, 3), st.booleans()
    ),
    max_size=12,
)


def job_of(queue: str, cpu: int, memory: int, more_cpu: int, more_memory: int) -> StandIn:
    held = {name: units for name, units in (("cpu", cpu), ("memory", memory)) if units}
    wanted = {"cpu": cpu + more_cpu, "memory": memory + more_memory}
    return StandIn(queue, held, {name: units for name, units in wanted.items() if units})


@given(JOBS, MOVES)
def test_a_tree_that_was_changed_bit_by_bit_is_the_tree_that_is_planted_so(
    jobs: list[tuple[str, int, int, int, int]], moves: list[tuple[int, str, int, bool]]
):
    held = {str(number): job_of(*job) for number, job in enumerate(jobs)}
    tree = planted(QUEUES, held)
    for number, name, units, asks in moves:
        job = held.get(str(number))
        if job is None or job.allocated.get(name, 0) + units < 0:
            continue
        changed = dict(job.allocated)
        changed[name] = changed.get(name, 0) + units
        held[str(number)] = StandIn(
            job.queue, {key: value for key, value in changed.items() if value}, job.requested
        )
        tree.move(("test", str(number)), ((name, abs(units)),), 1 if units > 0 else -1)
        if asks:
            tree.order(job.queue)

    fresh = planted(QUEUES, held)
    assert {name: tree.order(name) for name in QUEUES} == {
        name: fresh.order(name) for name in QUEUES
    }


def test_one_job_more_costs_no_look_at_all_the_others(monkeypatch: pytest.MonkeyPatch):
    jobs = {str(n): StandIn("a", {"cpu": n % 7 + 1}, {"cpu": 99}) for n in range(5000)}
    tree = planted(QUEUES, {**jobs, "c": StandIn("c", {"cpu": 1}, {"cpu": 9})})
    tree.order("a")
    looks: list[object] = []
    dominant = tree._dominant
    monkeypatch.setattr(tree, "_dominant", lambda held: looks.append(held) or dominant(held))
    for number in range(100):
        tree.move(("test", str(number)), (("cpu", 1),), 1)
        tree.order("a")

    assert len(looks) <= 100 * len(("the job", "a", "x", "root"))
