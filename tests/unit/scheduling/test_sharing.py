"""What is kept queue by queue is what sharing out among all of them at once gives."""

from hypothesis import given
from hypothesis import strategies as st

from stromboli.scheduling.shares import Demand, water_fill
from stromboli.scheduling.sharing import Sharing

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 40))
demands = st.builds(
    Demand, weight=st.integers(1, 5), request=amounts, limit=amounts, guarantee=amounts
)
changes = st.lists(st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), demands)), max_size=12)


@given(total=amounts, changes=changes)
def test_any_sequence_of_changes_ends_where_a_fresh_start_does(
    total: dict[str, int], changes: list[tuple[str, Demand | None]]
):
    sharing = Sharing()
    sharing.begin(total)
    standing: dict[str, Demand] = {}
    for name, demand in changes:
        sharing.put(name, demand)
        sharing.deserved(name)
        standing.pop(name, None)
        if demand is not None:
            standing[name] = demand

    names = sorted(standing)
    expected = water_fill(total, [standing[name] for name in names])
    assert [sharing.deserved(name) for name in names] == expected


def test_who_does_not_take_part_deserves_nothing():
    sharing = Sharing()
    sharing.begin({"cpu": 4})

    assert sharing.deserved("a") == {}


def test_a_new_total_is_a_new_beginning():
    sharing = Sharing()
    demand = Demand(weight=1, request={"cpu": 9}, limit={}, guarantee={})
    sharing.begin({"cpu": 4})
    sharing.put("a", demand)
    before = dict(sharing.deserved("a"))

    sharing.begin({"cpu": 8})
    sharing.put("a", demand)

    assert (before, sharing.deserved("a")) == ({"cpu": 4}, {"cpu": 8})
