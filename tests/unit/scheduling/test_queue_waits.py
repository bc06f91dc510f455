"""Who sleeps because its queue is full, and who is woken."""

from stromboli.scheduling.queue_waits import QueueWaits, Wait

SMALL = Wait("q", (("cpu", 1),), admitted=True)
LARGE = Wait("q", (("cpu", 9),), admitted=True)


def test_it_is_found_out_once_for_all_that_need_the_same():
    waits, asked = QueueWaits(), list[Wait]()
    for number in range(3):
        waits.put(("test", f"small-{number}"), SMALL)
    waits.put(("test", "large"), LARGE)

    def has_room(wait: Wait) -> bool:
        asked.append(wait)
        return wait is SMALL

    assert waits.wake_if(has_room) == [("test", f"small-{number}") for number in range(3)]
    assert asked == [SMALL, LARGE]
    assert waits.jobs() == [("test", "large")]


def test_who_waits_for_something_else_now_waits_for_that_only():
    waits = QueueWaits()
    waits.put(("test", "a"), SMALL)

    waits.put(("test", "a"), LARGE)

    assert waits.wake_if(lambda wait: wait == SMALL) == []
    assert waits.wake_if(lambda wait: wait == LARGE) == [("test", "a")]
    assert len(waits) == 0


def test_who_is_dropped_is_not_woken():
    waits = QueueWaits()
    waits.put(("test", "a"), SMALL)
    waits.put(("test", "b"), SMALL)

    waits.drop(("test", "a"))
    waits.drop(("test", "unheard"))

    assert waits.wake_if(lambda _: True) == [("test", "b")]


def test_all_can_be_forgotten():
    waits = QueueWaits()
    waits.put(("test", "a"), SMALL)

    waits.clear()

    assert waits.wake_if(lambda _: True) == []
