"""The tree of queues, and what becomes of those that have no place in it."""

from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.queues import QueueInfo


def tree(**parents: str) -> QueueTree:
    return QueueTree({name: QueueInfo(name, parent=parent) for name, parent in parents.items()})


def test_a_queue_without_a_parent_stands_under_the_root():
    found = tree(a="", b="root").position

    assert found("a").ancestors == ("root",)
    assert found("b").ancestors == ("root",)
    assert found("root").children == ("a", "b")


def test_ancestors_are_listed_from_the_root_down():
    position = tree(a="", b="a", c="b").position("c")

    assert position.path == ("root", "a", "b", "c")
    assert position.parent == "b"


def test_levels_are_counted_upwards_and_end_below_the_root():
    position = tree(a="", b="a", c="b").position("c")

    assert [position.above(level) for level in range(5)] == ["", "b", "a", "", ""]


def test_relatives_share_the_beginning_of_their_paths():
    found = tree(a="", b="a", c="a", d="")

    assert found.common("b", "c") == 2
    assert found.common("b", "d") == 1
    assert found.common("b", "b") == 3


def test_a_parent_that_does_not_exist_is_the_problem_of_those_below_only():
    found = tree(a="nowhere", b="a", c="")

    said = "queue 'a' names a parent 'nowhere' that does not exist"
    assert [found.jobs_barred(name) for name in ("a", "b", "c")] == [said, said, ""]
    assert found.position("root").children == ("c",)


def test_a_circle_is_the_problem_of_those_in_it_and_below_only():
    found = tree(a="b", b="a", c="a", d="")

    assert found.jobs_barred("a") == "queues stand in a circle: a under b under a"
    assert found.jobs_barred("c")
    assert not found.jobs_barred("d")
    assert tree(a="a").jobs_barred("a") == "queues stand in a circle: a under a"


def test_a_queue_that_cannot_be_read_has_no_place():
    queues = {"a": QueueInfo("a", problem="its cpu is -1"), "b": QueueInfo("b", parent="a")}

    found = QueueTree(queues)

    assert found.jobs_barred("a") == "its cpu is -1"
    assert found.jobs_barred("b") == "its cpu is -1"


def test_jobs_belong_in_leaves():
    found = tree(a="", b="a", c="a", d="a", e="a")

    assert found.jobs_barred("a") == (
        "queue 'a' has queues below it (b, c, d, …); jobs belong in one of those"
    )
    assert found.jobs_barred("root")
    assert found.jobs_barred("gone") == "queue 'gone' does not exist"


def test_parents_come_first():
    assert [position.name for position in tree(a="z", z="", m="a").positions] == [
        "root",
        "z",
        "a",
        "m",
    ]


names = st.sampled_from("abcdefgh")


@given(parents=st.dictionaries(names, st.one_of(st.just(""), names, st.just("x"))))
def test_every_queue_has_a_place_or_a_problem(parents: dict[str, str]):
    found = tree(**parents)

    for name in parents:
        position = found.position(name)
        if position.problem:
            assert found.path(name) == (name,)
            continue
        assert position.path[0] == "root"
        assert len(set(position.path)) == len(position.path)
        assert name in found.position(position.parent).children


@given(parents=st.dictionaries(names, st.one_of(st.just(""), names, st.just("x"))))
def test_the_order_of_the_queues_does_not_matter(parents: dict[str, str]):
    turned = dict(reversed(parents.items()))

    for name in parents:
        one, other = tree(**parents).position(name), tree(**turned).position(name)
        assert (one.ancestors, one.children) == (other.ancestors, other.children)
        assert bool(one.problem) == bool(other.problem)
