"""What queues are sure of and do not use is kept from all others."""

from stromboli.scheduling.accounts import Accounts
from stromboli.scheduling.guaranteed import Guaranteed


def guaranteed(
    accounts: Accounts, sure: dict[str, int], parents: dict[str, str], *, total: int = 10
) -> Guaranteed:
    found = Guaranteed(accounts)
    found.configure({name: {"cpu": units} for name, units in sure.items()}, parents, {"cpu": total})
    found.begin()
    return found


def take(found: Guaranteed, queue: str, cpu: int) -> None:
    found.accounts.place(queue, (("cpu", cpu),), 1)
    found.moved(queue)


def test_two_queues_together_leave_a_third_what_it_is_sure_of():
    found = guaranteed(Accounts(), {"a": 4}, {"a": "", "b": "", "c": ""})
    take(found, "b", 4)

    assert found.room("c") == {"cpu": 2}
    assert found.room("a") == {}
    assert found.keepers("c", ["cpu"]) == ["a"]


def test_what_a_queue_uses_of_its_own_guarantee_costs_others_nothing():
    found = guaranteed(Accounts(), {"a": 4}, {"a": "", "b": ""})
    take(found, "a", 3)

    assert found.room("b") == {"cpu": 6}
    take(found, "a", 3)

    assert found.room("b") == {}
    assert found.keepers("b", ["cpu"]) == []


def test_more_guarantees_than_there_is_leave_a_queue_its_own():
    found = guaranteed(Accounts(), {"a": 8, "b": 8}, {"a": "", "b": "", "c": ""})
    take(found, "b", 9)

    assert found.room("a") == {}
    assert found.room("c") == {"cpu": 0}


def test_what_a_parent_is_sure_of_is_for_those_below_it():
    parents = {"top": "", "a": "top", "b": "top", "other": ""}
    paths = {"a": ("top", "a"), "b": ("top", "b"), "other": ("other",)}
    found = guaranteed(Accounts(path_of=paths.__getitem__), {"top": 6, "a": 2}, parents)

    assert found.room("other") == {"cpu": 4}
    assert found.room("b") == {"cpu": 8}
    take(found, "b", 5)

    assert found.room("other") == {"cpu": 3}
    assert found.room("a") == {}


def test_what_a_cycle_only_tried_is_forgotten_when_the_next_begins():
    accounts = Accounts()
    found = guaranteed(accounts, {"a": 4}, {"a": "", "b": ""})
    take(found, "b", 6)
    accounts.place("b", (("cpu", 6),), -1)

    found.begin()

    assert found.room("b") == {"cpu": 6}


def test_where_nobody_is_sure_of_anything_nothing_is_kept():
    found = guaranteed(Accounts(), {}, {"a": "", "b": ""})
    take(found, "a", 50)

    assert found.room("b") == {}


def test_who_uses_all_that_it_is_sure_of_keeps_nothing_from_others():
    """Pods on nodes that are away count as used, and must not stop others on nodes that are not."""
    found = guaranteed(Accounts(), {"a": 4}, {"a": "", "b": ""}, total=6)
    take(found, "a", 8)

    assert found.room("b") == {}
