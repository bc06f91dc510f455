"""Amounts in base units add up in int64 without rounding twice."""

import pytest

from stromboli.api.quantity import parse_quantity
from stromboli.api.resources import add_resources, from_base_units, to_base_units


@pytest.mark.parametrize(
    ("resource", "amount", "units"),
    [
        ("cpu", "1500m", 1500),
        ("requests.cpu", 2, 2000),
        ("nvidia.com/gpu", "1", 1000),
        ("requests.nvidia.com/gpu", "0.5", 500),
        ("memory", "1Gi", 2**30),
        ("limits.memory", "1Gi", 2**30),
        ("ephemeral-storage", "1Ti", 2**40),
        ("hugepages-2Mi", "4Mi", 2**22),
        ("pods", "110", 110),
        ("count/pods", 4, 4),
        ("attachable-volumes-csi-x", "25", 25),
    ],
)
def test_each_resource_has_one_base_unit(resource: str, amount: str | int, units: int):
    assert to_base_units(resource, amount) == units
    assert from_base_units(resource, units) == parse_quantity(amount)


def test_a_quantity_that_was_parsed_already_is_taken_as_it_is():
    assert to_base_units("cpu", parse_quantity("1n")) == 1


def test_sums_are_canonical_and_ordered_by_name():
    total = add_resources([{"memory": "1Gi", "cpu": "500m"}, {"cpu": 1.5, "a/b": 1}, {}])

    assert list(total.items()) == [("a/b", "1"), ("cpu", "2"), ("memory", "1Gi")]
