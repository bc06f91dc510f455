"""What queues are sure of, entitled to, and may have at most."""

from stromboli.scheduling.entitlements import flat, in_tree
from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.shares import PLENTY


def cpu(units: int) -> Amounts:
    return (("cpu", units),)


def queues(*infos: QueueInfo) -> dict[str, QueueInfo]:
    return {info.name: info for info in infos}


# Side by side.


def test_the_limit_is_what_guarantees_of_others_leave():
    found = flat(
        queues(QueueInfo("a", guarantee=cpu(3)), QueueInfo("b", guarantee=cpu(2)), QueueInfo("c")),
        {"cpu": 10, "memory": 7},
    )

    assert found["a"].limit == {"cpu": 8, "memory": 7}
    assert found["b"].limit == {"cpu": 7, "memory": 7}
    assert found["c"].limit == {"cpu": 5, "memory": 7}


def test_a_capability_limits_what_it_names_only():
    found = flat(queues(QueueInfo("a", capability=cpu(4))), {"cpu": 10, "memory": 7})

    assert found["a"].limit == {"cpu": 4, "memory": 7}


def test_what_no_node_has_nobody_may_have():
    found = flat(queues(QueueInfo("a", capability=(("gpu", 8),))), {"cpu": 10})

    assert found["a"].at_most("gpu") == 0
    assert found["a"].at_most("fpga") == 0


def test_guarantees_of_more_than_there_is_leave_nothing_to_others():
    found = flat(queues(QueueInfo("a", guarantee=cpu(12)), QueueInfo("b")), {"cpu": 10})

    assert found["a"].limit == {"cpu": 12}
    assert found["b"].limit == {"cpu": 0}


def test_deserved_is_cut_at_the_limit_and_never_below_the_guarantee():
    found = flat(
        queues(
            QueueInfo("a", deserved=cpu(9), capability=cpu(4)),
            QueueInfo("b", deserved=cpu(1), guarantee=cpu(2)),
            QueueInfo("c"),
        ),
        {"cpu": 10},
    )

    assert found["a"].deserved == {"cpu": 4}
    assert found["b"].deserved == {"cpu": 2}
    assert found["c"].deserved == {}


# In a tree.


def test_a_root_without_capability_has_no_limit():
    infos = queues(QueueInfo("a"))

    found = in_tree(QueueTree(infos), infos)

    assert found["root"].at_most("cpu") == PLENTY
    assert found["a"].at_most("cpu") == PLENTY


def test_a_child_inherits_what_it_does_not_limit_itself():
    infos = queues(
        QueueInfo("top", capability=(("cpu", 8), ("memory", 9))),
        QueueInfo("mine", parent="top", capability=cpu(2)),
        QueueInfo("below", parent="mine"),
    )

    found = in_tree(QueueTree(infos), infos)

    assert found["mine"].limit == {"cpu": 2, "memory": 9}
    assert found["below"].limit == {"cpu": 2, "memory": 9}


def test_a_capability_larger_than_the_parents_is_cut():
    infos = queues(
        QueueInfo("top", capability=cpu(4)), QueueInfo("a", parent="top", capability=cpu(9))
    )

    assert in_tree(QueueTree(infos), infos)["a"].limit == {"cpu": 4}


def test_siblings_keep_their_guarantees_out_of_the_limit():
    infos = queues(
        QueueInfo("top", capability=cpu(10)),
        QueueInfo("a", parent="top", guarantee=cpu(3)),
        QueueInfo("b", parent="top", guarantee=cpu(2)),
        QueueInfo("cousin", guarantee=cpu(5)),
    )

    found = in_tree(QueueTree(infos), infos)

    assert found["a"].limit == {"cpu": 8}
    assert found["b"].limit == {"cpu": 7}


def test_a_root_deserves_what_its_children_do():
    infos = queues(
        QueueInfo("a", deserved=cpu(3)), QueueInfo("b", deserved=cpu(1), guarantee=cpu(2))
    )

    found = in_tree(QueueTree(infos), infos)["root"]

    assert (found.deserved, found.guarantee) == ({"cpu": 5}, {"cpu": 2})


def test_deserved_is_not_cut_at_the_limit_in_a_tree():
    infos = queues(QueueInfo("a", deserved=cpu(9), capability=cpu(4)))

    assert in_tree(QueueTree(infos), infos)["a"].deserved == {"cpu": 9}


def test_queues_without_a_place_have_no_say():
    infos = queues(
        QueueInfo("root", capability=cpu(10)),
        QueueInfo("lost", parent="nowhere", guarantee=cpu(9)),
        QueueInfo("a"),
    )

    found = in_tree(QueueTree(infos), infos)

    assert "lost" not in found
    assert found["a"].limit == {"cpu": 10}
