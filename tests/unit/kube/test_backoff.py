import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.kube.backoff import Backoff


def test_delays_double_up_to_the_bound() -> None:
    backoff = Backoff(first_s=1, max_s=5, jitter=0, rng=random.Random(0))

    assert [backoff.next_delay_s() for _ in range(5)] == [1, 2, 4, 5, 5]


def test_a_reset_starts_over() -> None:
    backoff = Backoff(first_s=1, max_s=60, jitter=0, rng=random.Random(0))
    backoff.next_delay_s()
    backoff.next_delay_s()
    backoff.reset()

    assert backoff.next_delay_s() == 1


def test_the_same_seed_gives_the_same_delays() -> None:
    one = Backoff(rng=random.Random(7))
    other = Backoff(rng=random.Random(7))

    assert [one.next_delay_s() for _ in range(8)] == [other.next_delay_s() for _ in range(8)]


def test_two_clients_do_not_return_in_step() -> None:
    one = Backoff(rng=random.Random(1))
    other = Backoff(rng=random.Random(2))

    assert [one.next_delay_s() for _ in range(4)] != [other.next_delay_s() for _ in range(4)]


@given(st.integers(), st.integers(min_value=1, max_value=2000), st.floats(0, 1))
def test_no_delay_leaves_its_bounds(seed: int, failures: int, jitter: float) -> None:
    backoff = Backoff(first_s=0.5, max_s=30, jitter=jitter, rng=random.Random(seed))
    delays = [backoff.next_delay_s() for _ in range(failures)]

    assert all(0.5 * (1 - jitter) <= delay <= 30 for delay in delays)


def test_the_servers_wish_is_a_lower_bound_within_our_own() -> None:
    backoff = Backoff(first_s=1, max_s=10, jitter=0, rng=random.Random(0))

    assert backoff.next_delay_s(at_least_s=7) == 7
    assert backoff.next_delay_s(at_least_s=86400) == 10


@pytest.mark.parametrize(
    "wrong", [{"first_s": 0}, {"first_s": 40}, {"factor": 0.5}, {"jitter": 1.5}, {"jitter": -0.1}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Backoff(rng=random.Random(0), **wrong)
