"""Quantities behave as kube-apiserver 1.35 showed when it was asked."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.api.errors import QuantityError
from stromboli.api.quantity import ZERO, Family, Quantity, parse_quantity

MAX_INT64 = 2**63 - 1
FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "e3": Fraction(10**3), "E2": Fraction(100), "e-4": Fraction(1, 10**4), "e+1": Fraction(10),
}  # fmt: skip

numbers = st.decimals(
    min_value=-(10**12), max_value=10**12, places=None, allow_nan=False, allow_infinity=False
).map(lambda number: format(number, "f"))
written = st.tuples(numbers, st.sampled_from(sorted(FACTORS))).map("".join)
quantities = st.builds(
    Quantity, st.integers(min_value=-(10**30), max_value=10**30), st.sampled_from(Family)
)


def meant(number: str, suffix: str) -> Fraction:
    """What the text stands for, before Kubernetes rounds it."""
    return Fraction(Decimal(number)) * FACTORS[suffix]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0e5", "0"),
        ("000", "0"),
        ("0.1", "100m"),
        (".5", "500m"),
        ("1.", "1"),
        ("1.Gi", "1Gi"),
        ("+5Mi", "5Mi"),
        (" 1 ", "1"),
        ("2048", "2048"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1000000", "1M"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1234567890Ki", "1234567890Ki"),
        ("12e6", "12e6"),
        ("1e3", "1e3"),
        ("1e1", "10"),
        ("1e2", "100"),
        ("1.5e3", "1500"),
        ("1e+5", "100e3"),
        ("1E-2", "10e-3"),
        ("1e19", "10e18"),
        ("1e1000", "10e999"),
        ("1E", "1E"),
        ("1.5E", "1500P"),
        ("-1.5Ki", "-1536"),
        ("-2Gi", "-2Gi"),
        ("-100m", "-100m"),
    ],
)
def test_the_canonical_form_is_that_of_kubernetes(text: str, canonical: str):
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5Ki", "512"),
        ("1023", "1023"),
        ("0.001Ki", "1024m"),
        ("1.1Ki", "1126400m"),
        ("1.0001Ki", "1024102400u"),
    ],
)
def test_a_binary_quantity_that_would_need_a_fraction_is_printed_as_decimal(
    text: str, canonical: str
):
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize("text", ["0.0000001n", "0.1n", "1n", "1e-9", "1e-1000", "1e-999999999"])
def test_any_amount_above_zero_is_at_least_one_nano(text: str):
    assert parse_quantity(text) == Quantity(1)
    assert parse_quantity(f"-{text}") == Quantity(-1)


@pytest.mark.parametrize("text", ["8Ei", "100Ei", "9223372036854775807Ki"])
def test_a_binary_quantity_is_capped_at_the_largest_int64(text: str):
    assert str(parse_quantity(text)) == str(MAX_INT64)
    assert str(parse_quantity(f"-{text}")) == str(-MAX_INT64)


def test_a_decimal_quantity_is_not_capped_and_keeps_its_value_when_printed():
    assert str(parse_quantity("9999999999999999999999999k")) == "9999999999999999999999999k"
    assert str(parse_quantity("1000E")) == "1000E"
    assert str(parse_quantity("7Ei") * 1024) == "7168Ei"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "+", "-", ".", "Ki", "m", "e5", "1e", "1e+", "-3.01e-", "1i", ".5i", "0.1mi",
        "0.1am", "1.1.M", "1+1.0M", "1Ei5", "1K", "1g", "0x1", "aoeu", "1 Gi", "--1", "1e5.5",
        "\uff11", "1e1001", "1e99999999999", "1" * 1001, "nan", "inf", "true",
    ],
)  # fmt: skip
def test_what_is_not_a_quantity_is_refused(text: str):
    with pytest.raises(QuantityError, match="bad quantity"):
        parse_quantity(text)


def test_the_error_names_the_text_and_what_was_expected():
    with pytest.raises(QuantityError) as caught:
        parse_quantity("12Gib")

    assert caught.value.text == "12Gib"
    assert str(caught.value).startswith("bad quantity '12Gib': expected a number with an optional")


def test_the_error_does_not_repeat_a_flood_of_text():
    with pytest.raises(QuantityError) as caught:
        parse_quantity("x" * 100_000)

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("number", "canonical"), [(1, "1"), (0.5, "500m"), (1e22, "10e21"), (1000, "1k"), (-2, "-2")]
)
def test_json_numbers_are_read_as_they_are_printed(number: float, canonical: str):
    assert str(parse_quantity(number)) == canonical


@pytest.mark.parametrize(
    ("text", "units", "milli"),
    [
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1n", 1, 1),
        ("-1n", -1, -1),
        ("1Gi", 2**30, 2**30 * 1000),
        ("1e30", MAX_INT64, MAX_INT64),
        ("-1e30", -MAX_INT64 - 1, -MAX_INT64 - 1),
        ("10P", 10**16, MAX_INT64),
    ],
)
def test_values_round_away_from_zero_and_stay_within_int64(text: str, units: int, milli: int):
    quantity = parse_quantity(text)

    assert (quantity.value(), quantity.milli_value()) == (units, milli)


def test_sums_keep_the_family_of_the_first_term_that_is_not_zero():
    assert str(parse_quantity("100m") + parse_quantity("0.9")) == "1"
    assert str(parse_quantity("1Gi") + parse_quantity("1073741824")) == "2Gi"
    assert str(parse_quantity("1073741824") + parse_quantity("1Gi")) == "2147483648"
    assert str(ZERO + parse_quantity("2Gi")) == "2Gi"
    assert str(ZERO - parse_quantity("2Gi")) == "-2Gi"
    assert str(parse_quantity("1Ki") - parse_quantity("1")) == "1023"


def test_a_quantity_can_be_scaled_negated_and_asked_whether_it_is_anything():
    assert str(3 * parse_quantity("500m")) == "1500m"
    assert str(-parse_quantity("1Gi") * 2) == "-2Gi"
    assert not parse_quantity("0Gi")
    assert parse_quantity("1n")


def test_equality_and_hash_look_at_the_number_alone():
    same = {parse_quantity(text) for text in ("1Ki", "1024", "1.024k", "1024e0")}

    assert len(same) == 1


def test_units_and_thousandths_make_quantities():
    assert str(Quantity.of_units(2**20, Family.BINARY_SI)) == "1Mi"
    assert str(Quantity.of_milli(2500)) == "2500m"


@given(numbers, st.sampled_from(sorted(FACTORS)))
def test_parsing_is_exact_up_to_rounding_away_from_zero_at_nano(number: str, suffix: str):
    exact = meant(number, suffix) * 10**9
    rounded = -((-exact) // 1) if exact >= 0 else exact // 1
    if suffix.endswith("i"):
        rounded = max(-MAX_INT64 * 10**9, min(MAX_INT64 * 10**9, rounded))

    assert parse_quantity(number + suffix).nano == rounded


@given(written, written)
def test_quantities_are_ordered_as_the_numbers_they_stand_for(left: str, right: str):
    one, other = parse_quantity(left), parse_quantity(right)

    assert (one < other) == (Fraction(one.nano, 10**9) < Fraction(other.nano, 10**9))
    assert (one <= other) == (not other < one)
    assert (one == other) == (one.nano == other.nano)


@given(quantities)
def test_printing_loses_nothing_below_the_cap(quantity: Quantity):
    read_back = parse_quantity(str(quantity))

    if quantity.family is Family.BINARY_SI and abs(quantity.nano) > MAX_INT64 * 10**9:
        assert abs(read_back.nano) in (MAX_INT64 * 10**9, abs(quantity.nano))
    else:
        assert read_back == quantity


@given(written)
def test_the_canonical_form_is_canonical(text: str):
    canonical = str(parse_quantity(text))

    assert str(parse_quantity(canonical)) == canonical
    assert "." not in canonical


@given(quantities, quantities)
def test_subtracting_what_was_added_gives_back_the_number(one: Quantity, other: Quantity):
    assert (one + other) - other == one
    assert one + -one == ZERO
