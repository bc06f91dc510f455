"""Who may be asked to give way to a queue that has less than it deserves, rule by rule."""

from collections.abc import Mapping

from stromboli.scheduling.accounts import Accounts
from stromboli.scheduling.entitlements import Entitlement
from stromboli.scheduling.hierarchy import QueueTree
from stromboli.scheduling.pods import Task, TaskClass, TaskStatus
from stromboli.scheduling.queues import QueueInfo
from stromboli.scheduling.reclaiming import Reclaim
from stromboli.scheduling.resources import Amounts
from stromboli.scheduling.shares import PLENTY

CPU_AND_POD: Amounts = (("cpu", 1), ("pods", 1))


def task(number: int, request: Amounts = CPU_AND_POD) -> Task:
    return Task(
        namespace="test",
        name=f"v-{number}",
        uid=f"v-{number}",
        group="g",
        role="",
        kind=TaskClass(request),
        status=TaskStatus.RUNNING,
        node="n",
        priority=0,
        created="",
        bound_at="",
        gated=False,
    )


def holding(path_of: QueueTree | None = None, **cpu: int) -> Accounts:
    """Accounts in which each queue holds so much cpu."""
    accounts = Accounts(path_of.path) if path_of else Accounts()
    for name, units in cpu.items():
        accounts.place(name, (("cpu", units),), 1)
    return accounts


def taken(reclaim: Reclaim, queue: str, *tasks: Task, for_gang: bool = False) -> list[str]:
    found = reclaim.victims([(one, queue) for one in tasks], for_gang=for_gang)
    return [one.name for one in found]


def deserve(**cpu: int) -> dict[str, Entitlement]:
    return {
        name.replace("_", "-"): Entitlement(deserved={"cpu": units} if units else {})
        for name, units in cpu.items()
    }


def test_a_queue_gives_until_it_has_what_it_deserves():
    reclaim = Reclaim("mine", CPU_AND_POD, holding(theirs=4), deserve(mine=9, theirs=2))

    assert taken(reclaim, "theirs", *map(task, range(4))) == ["v-0", "v-1"]


def test_who_deserves_nothing_of_what_a_pod_uses_gives_everything():
    reclaim = Reclaim("mine", CPU_AND_POD, holding(theirs=3), deserve(mine=9, theirs=0))

    assert taken(reclaim, "theirs", *map(task, range(3))) == ["v-0", "v-1", "v-2"]


def test_what_a_queue_has_too_much_of_must_be_something_the_pod_uses():
    entitlements = {"mine": Entitlement(), "theirs": Entitlement(deserved={"cpu": 5, "gpu": 1})}
    accounts = holding(theirs=4)
    accounts.place("theirs", (("gpu", 1),), 3)
    cpu_only = task(1)
    with_gpu = task(2, (("cpu", 1), ("gpu", 1)))

    reclaim = Reclaim("mine", (("cpu", 1), ("gpu", 1)), accounts, entitlements)

    assert taken(reclaim, "theirs", cpu_only, with_gpu) == ["v-2"]


def test_pods_alone_are_nothing_in_common():
    reclaim = Reclaim(
        "mine", (("gpu", 1), ("pods", 1)), holding(theirs=4), deserve(mine=9, theirs=0)
    )

    assert taken(reclaim, "theirs", task(1)) == []
    assert taken(reclaim, "theirs", task(1), for_gang=True) == ["v-1"]


def test_the_guarantee_stays():
    entitlements = {
        "mine": Entitlement(),
        "theirs": Entitlement(guarantee={"cpu": 3}, deserved={"cpu": 3}),
    }
    reclaim = Reclaim("mine", CPU_AND_POD, holding(theirs=5), entitlements)

    assert taken(reclaim, "theirs", *map(task, range(5))) == ["v-0", "v-1"]


def test_a_guarantee_of_something_else_that_is_not_used_keeps_everything_as_in_volcano():
    entitlements = {
        "mine": Entitlement(),
        "theirs": Entitlement(guarantee={"gpu": 1}, deserved={"cpu": 1, "gpu": 1}),
    }
    reclaim = Reclaim("mine", CPU_AND_POD, holding(theirs=5), entitlements)

    assert taken(reclaim, "theirs", task(1)) == []


def test_a_queue_that_is_not_known_gives_nothing():
    reclaim = Reclaim("mine", CPU_AND_POD, holding(gone=5), deserve(mine=9))

    assert taken(reclaim, "gone", task(1)) == []


# In a tree.


def tree_of(**parents: str) -> QueueTree:
    return QueueTree({name: QueueInfo(name, parent=parent) for name, parent in parents.items()})


TREE = tree_of(left="", a="left", b="left", right="", c="right")


def in_tree(levels: int, entitlements: Mapping[str, Entitlement], **cpu: int) -> Reclaim:
    return Reclaim(
        "a", CPU_AND_POD, holding(TREE, **cpu), unlimited(entitlements), tree=TREE, levels=levels
    )


def unlimited(entitlements: Mapping[str, Entitlement]) -> dict[str, Entitlement]:
    everything = dict.fromkeys(("root", "left", "right", "a", "b", "c"), Entitlement())
    return {
        name: Entitlement(
            deserved=entitlements.get(name, one).deserved,
            limit=entitlements.get(name, one).limit,
            otherwise=PLENTY,
        )
        for name, one in everything.items()
    }


def test_a_parent_that_has_no_more_than_it_deserves_says_no():
    entitlements = deserve(a=9, c=1, right=4)

    assert taken(in_tree(0, entitlements, c=4), "c", task(1)) == ["v-1"]
    assert taken(in_tree(1, entitlements, c=4), "c", task(1)) == []


def test_a_parent_that_deserves_nothing_does_not_stand_in_the_way():
    assert taken(in_tree(1, deserve(a=9, c=1), c=4), "c", task(1)) == ["v-1"]


def test_a_common_parent_is_not_asked():
    assert taken(in_tree(1, deserve(a=9, b=1, left=50), b=4), "b", task(1)) == ["v-1"]


def test_siblings_that_deserve_nothing_do_not_take_from_each_other():
    assert taken(in_tree(0, deserve(left=4), b=4), "b", task(1)) == ["v-1"]
    assert taken(in_tree(1, deserve(left=4), b=4), "b", task(1)) == []
    assert taken(in_tree(1, deserve(a=1, left=4), b=4), "b", task(1)) == ["v-1"]


def test_what_is_taken_counts_on_every_level():
    reclaim = in_tree(1, deserve(a=9, c=0, right=2), c=4)

    assert taken(reclaim, "c", *map(task, range(4))) == ["v-0", "v-1"]


def test_where_the_parent_is_full_only_its_own_can_make_room():
    entitlements = {
        **deserve(a=9),
        "left": Entitlement(limit={"cpu": 4}),
    }
    reclaim = in_tree(0, entitlements, b=4, c=4)

    assert taken(reclaim, "c", task(1)) == []
    assert taken(reclaim, "b", task(2)) == ["v-2"]
