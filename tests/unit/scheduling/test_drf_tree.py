"""The tree of hierarchical fair sharing, by numbers that can be checked by hand."""

from dataclasses import dataclass, field
from typing import Any, cast

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
