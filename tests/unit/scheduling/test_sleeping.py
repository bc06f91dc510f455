"""Who sleeps, who stands in line, and who is woken."""

from stromboli.scheduling.sleeping import Like, Rank, Sleepers, Wait

SMALL = Wait("q", (("cpu", 1),), admitted=True)
LARGE = Wait("q", (("cpu", 9),), admitted=True)


def like(priority: int = 0) -> Like:
    return Like("q", "Inqueue", "test", priority, 1, (), (), None, "", 1, 0, may_preempt=True)


def test_it_is_found_out_once_for_all_that_need_the_same():
    waits, asked = Sleepers[Wait](), list[Wait]()
    for number in range(3):
        waits.put(("test", f"small-{number}"), SMALL)
        waits.put(("test", f"alike-{number}"), SMALL, Rank(like(), (number,)))
    waits.put(("test", "large"), LARGE)

    def has_room(wait: Wait) -> bool:
        asked.append(wait)
        return wait is SMALL

    woken, called = waits.wake_if(has_room)

    assert woken == [("test", f"small-{number}") for number in range(3)]
    assert [crowd.like for crowd in called] == [like()]
    assert asked == [SMALL, LARGE]
    assert len(waits) == 4


def test_who_waits_for_something_else_now_waits_for_that_only():
    waits = Sleepers[Wait]()
    waits.put(("test", "a"), SMALL)

    waits.put(("test", "a"), LARGE)

    assert waits.wake_if(lambda wait: wait == SMALL) == ([], [])
    assert waits.wake_if(lambda wait: wait == LARGE) == ([("test", "a")], [])
    assert len(waits) == 0


def test_who_is_dropped_is_not_woken():
    waits = Sleepers[Wait]()
    waits.put(("test", "a"), SMALL)
    waits.put(("test", "b"), SMALL)

    waits.drop(("test", "a"))
    waits.drop(("test", "unheard"))

    assert waits.wake_if(lambda _: True) == ([("test", "b")], [])


def test_all_can_be_forgotten():
    waits = Sleepers[Wait]()
    waits.put(("test", "a"), SMALL)
    waits.put(("test", "b"), SMALL, Rank(like(), (1,)))

    waits.clear()

    assert waits.wake_if(lambda _: True) == ([], [])


def test_those_that_are_alike_wake_in_the_order_of_their_turns():
    waits = Sleepers[Wait]()
    for turn in (3, 1, 2, 4):
        waits.put(("test", f"job-{turn}"), SMALL, Rank(like(), (turn,)))
    waits.put(("test", "other"), SMALL, Rank(like(priority=5), (0,)))

    _, called = waits.wake_if(lambda _: True)
    crowd = next(crowd for crowd in called if crowd.like == like())

    assert len(called) == 2
    assert crowd.wake_next() == ("test", "job-1")
    assert crowd.wake_next(after=(2,)) == ("test", "job-3")
    assert crowd.wake_next() == ("test", "job-2")
    assert crowd.wake_next(after=(4,)) is None
    assert crowd.wake_all() == [("test", "job-4")]
    assert waits.jobs() == [("test", "other")]


def test_a_line_that_moves_is_merged_with_the_one_that_stands_there():
    waits = Sleepers[Wait]()
    waits.put(("test", "b"), SMALL, Rank(like(), (2,)))

    waits.put_all([((1,), ("test", "a")), ((3,), ("test", "c"))], SMALL, like())
    _, (crowd,) = waits.wake_if(lambda _: True)

    assert crowd.wake_all() == [("test", "a"), ("test", "b"), ("test", "c")]
    assert len(waits) == 0
