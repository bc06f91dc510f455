"""How the cluster is shared out, by numbers that can be checked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.shares import (
    Demand,
    dominant_share,
    room_for,
    share,
    shortage,
    water_fill,
)

CORES = 1000
"""A cpu is a thousand units."""


def wants(
    cpu: int, *, weight: int = 1, limit: int | None = None, guarantee: int = 0, **more: int
) -> Demand:
    return Demand(
        weight=weight,
        request={"cpu": cpu, **more},
        limit={} if limit is None else {"cpu": limit},
        guarantee={"cpu": guarantee} if guarantee else {},
    )


def cpus(total: int, *demands: Demand) -> list[int]:
    return [part.get("cpu", 0) for part in water_fill({"cpu": total}, demands)]


@pytest.mark.parametrize(
    ("part", "whole", "expected"), [(1, 4, 0.25), (3, 2, 1.5), (0, 0, 0.0), (1, 0, 1.0)]
)
def test_something_of_nothing_is_all_of_it(part: int, whole: int, expected: float):
    assert share(part, whole) == expected


def test_the_dominant_share_is_the_largest_of_any_resource():
    assert dominant_share({"cpu": 1000, "memory": 3}, {"cpu": 4000, "memory": 4}) == 0.75
    assert dominant_share({"cpu": 1000}, {}) == 0.0


# Sharing out.


def test_weights_divide_what_everybody_wants():
    assert cpus(9 * CORES, wants(9000, weight=1), wants(9000, weight=2)) == [3000, 6000]


def test_what_one_does_not_ask_for_goes_to_the_others():
    assert cpus(10 * CORES, wants(9000), wants(2000)) == [8000, 2000]


def test_what_one_may_not_have_goes_to_the_others():
    assert cpus(10 * CORES, wants(9000, limit=1000), wants(9000)) == [1000, 9000]


def test_nobody_gets_more_than_it_asks_for():
    assert cpus(10 * CORES, wants(1000), wants(2000)) == [1000, 2000]


def test_what_is_left_over_is_shared_out_by_weight_too():
    demands = (wants(100, weight=4), wants(9000, weight=1), wants(9000, weight=3))

    assert cpus(8100, *demands) == [100, 2000, 6000]


def test_resources_do_not_influence_each_other():
    demands = [wants(4000, memory=1), wants(4000, memory=9)]

    found = water_fill({"cpu": 4000, "memory": 8}, demands)

    assert found == [{"cpu": 2000, "memory": 1}, {"cpu": 2000, "memory": 7}]


def test_a_guarantee_is_deserved_even_if_nobody_asks_for_it():
    assert cpus(10 * CORES, wants(0, guarantee=3000), wants(9000, limit=7000)) == [3000, 7000]


def test_a_guarantee_above_the_share_is_where_further_rounds_start_from():
    """12 in three parts of 4; the first has 5 by guarantee; what is left is split in halves."""
    demands = (wants(12000, guarantee=5000), wants(0), wants(12000, limit=7000))

    assert cpus(12000, *demands) == [6500, 0, 5500]


def test_guarantees_can_promise_more_than_there_is():
    """As in Volcano: who plans that has been warned, and nobody is left without its guarantee."""
    assert cpus(4, wants(9, guarantee=4), wants(9, guarantee=4)) == [4, 4]


def test_a_resource_that_no_node_has_is_deserved_by_nobody():
    assert water_fill({"cpu": 1}, [wants(1, gpu=8)]) == [{"cpu": 1}]
    assert cpus(0, wants(5)) == [0]
    assert water_fill({"cpu": 1}, []) == []


def test_what_does_not_divide_is_not_lost():
    assert sorted(cpus(10, wants(9), wants(9), wants(9))) == [3, 3, 4]


amounts = st.integers(0, 10**16)
plain = st.builds(
    Demand,
    weight=st.integers(1, 65535),
    request=st.fixed_dictionaries({"cpu": amounts}),
    limit=st.one_of(st.just({}), st.fixed_dictionaries({"cpu": amounts})),
    guarantee=st.just({}),
)
guaranteed = st.builds(
    Demand,
    weight=st.integers(1, 100),
    request=st.fixed_dictionaries({"cpu": amounts}),
    limit=st.one_of(st.just({}), st.fixed_dictionaries({"cpu": amounts})),
    guarantee=st.fixed_dictionaries({"cpu": amounts}),
)


def most(demand: Demand) -> int:
    return min(demand.request["cpu"], demand.limit.get("cpu", 10**17))


@given(total=amounts, demands=st.lists(plain, max_size=60))
def test_the_parts_add_up_to_the_whole_or_to_what_is_wanted(total: int, demands: list[Demand]):
    assert sum(cpus(total, *demands)) == min(total, sum(most(demand) for demand in demands))


@given(total=amounts, demands=st.lists(guaranteed, max_size=20))
def test_nobody_gets_more_than_it_may_have_unless_it_is_guaranteed(
    total: int, demands: list[Demand]
):
    for demand, part in zip(demands, cpus(total, *demands), strict=True):
        assert demand.guarantee["cpu"] <= part <= max(most(demand), demand.guarantee["cpu"])


@given(
    total=st.integers(0, 1000).map(lambda number: number * 1000),
    demands=st.lists(plain, min_size=1, max_size=12),
    data=st.data(),
)
def test_who_stands_where_changes_nothing_but_the_last_unit(
    total: int, demands: list[Demand], data: st.DataObject
):
    order = data.draw(st.permutations(range(len(demands))))
    straight = cpus(total, *demands)
    shuffled = cpus(total, *(demands[number] for number in order))

    for place, number in enumerate(order):
        assert abs(shuffled[place] - straight[number]) <= 1


@given(total=amounts, demands=st.lists(plain, min_size=2, max_size=12))
def test_a_larger_part_by_weight_is_never_taken_from_a_smaller_one(
    total: int, demands: list[Demand]
):
    """Whoever wants more has at least as much by weight as everybody else, but for rounding."""
    parts = cpus(total, *demands)
    for demand, part in zip(demands, parts, strict=True):
        if part == most(demand):
            continue
        for other, has in zip(demands, parts, strict=True):
            assert (part + 1) * other.weight >= (has - 1) * demand.weight


# Limits.


def test_what_a_request_does_not_name_does_not_count():
    taken, limit = {"cpu": 5, "memory": 9}, {"cpu": 8, "memory": 1}

    assert shortage((("cpu", 3),), taken, limit, otherwise=0) == ()
    assert shortage((("cpu", 4), ("memory", 1)), taken, limit, otherwise=0) == (
        ("cpu", 1),
        ("memory", 9),
    )


def test_pods_are_not_counted_against_limits():
    assert shortage((("cpu", 1), ("pods", 1)), {}, {"cpu": 1}, otherwise=0) == ()
    assert room_for((("cpu", 1), ("pods", 1)), 9, {}, {"cpu": 4}, otherwise=0) == 4


def test_as_many_as_fit_and_not_one_more():
    request = (("cpu", 3), ("memory", 2))

    assert room_for(request, 9, {"cpu": 1}, {"cpu": 11, "memory": 5}, otherwise=0) == 2
    assert room_for(request, 9, {"cpu": 12}, {"cpu": 11}, otherwise=99) == 0
    assert room_for(request, 1, {}, {}, otherwise=99) == 1
