"""Selectors pick what Kubernetes' would."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.api.errors import SelectorError
from stromboli.api.selector_text import (
    FieldRequirement,
    FieldSelector,
    LabelQuery,
    parse_field_selector,
    parse_label_selector,
)
from stromboli.api.selectors import LabelSelector, Operator, Requirement

LABELS = {"app": "web", "tier": "front", "gpus": "4", "empty": ""}


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        ("In", "app", ("web", "db"), True),
        ("In", "app", ("db",), False),
        ("In", "absent", ("web",), False),
        ("In", "absent", ("",), False),
        ("NotIn", "app", ("web",), False),
        ("NotIn", "app", ("db",), True),
        ("NotIn", "absent", ("db",), True),
        ("Exists", "empty", (), True),
        ("Exists", "absent", (), False),
        ("DoesNotExist", "absent", (), True),
        ("DoesNotExist", "app", (), False),
        ("Gt", "gpus", ("3",), True),
        ("Gt", "gpus", ("4",), False),
        ("Lt", "gpus", ("5",), True),
        ("Lt", "absent", ("5",), False),
        ("Gt", "app", ("3",), False),
        ("Gt", "gpus", ("x",), False),
        ("Gt", "gpus", (), False),
    ],
)
def test_each_operator_means_what_kubernetes_says(
    operator: str, key: str, values: tuple[str, ...], *, holds: bool
):
    assert Requirement(key=key, operator=operator, values=values).matches(LABELS) is holds


def test_an_operator_that_does_not_exist_is_refused_when_used():
    with pytest.raises(SelectorError, match="one of the operators In, NotIn"):
        Requirement(key="app", operator="Like").matches(LABELS)


def test_a_label_selector_wants_all_of_its_parts():
    selector = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=(Requirement(key="tier", operator="Exists"),),
    )

    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})
    assert not selector.matches({"tier": "front"})
    assert LabelSelector().matches({})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier != back ", True),
        ("app!=web", False),
        ("absent!=web", True),
        ("app in (web,db),tier notin (back, middle)", True),
        ("app in (db)", False),
        ("app", True),
        ("!app", False),
        ("!absent", True),
        ("empty=", True),
        ("empty=,app=web", True),
        ("app in (,web)", True),
        ("gpus>3,gpus<5", True),
        ("gpus>4", False),
        ("in=x", False),
        ("app in (in,web)", True),
    ],
)
def test_label_selectors_are_read_as_kubernetes_reads_them(text: str, *, holds: bool):
    assert parse_label_selector(text).matches(LABELS) is holds


@pytest.mark.parametrize(
    "text",
    [",", "app=web,", "=web", "app=web=x", "app in", "app in web", "app in (web", "app in ()",
     "app notin web)", "!", "!app=web", "app web", "a/b/c=d", "/b=c", "-a=b", "a=-b", "UP/a=b",
     "gpus>x", "gpus>", "a" * 64, "a=" + "b" * 64, "a=(b)", "a!b"],
)  # fmt: skip
def test_bad_label_selectors_are_refused(text: str):
    with pytest.raises(SelectorError, match="bad selector"):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("b=2,a in (y,x),!c,d,e!=f,g notin (h,i),j>3,k<4",
         "a in (x,y),b=2,!c,d,e!=f,g notin (h,i),j>3,k<4"),
        ("example.com/a==b", "example.com/a=b"),
        ("a in (x)", "a=x"),
        ("", ""),
    ],
)  # fmt: skip
def test_label_selectors_print_in_one_form(text: str, printed: str):
    assert str(parse_label_selector(text)) == printed


names = st.from_regex(r"[a-z]([-a-z0-9_.]{0,8}[a-z0-9])?", fullmatch=True)
value_sets = st.lists(names, min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
requirements = st.one_of(
    st.builds(
        Requirement,
        key=names,
        operator=st.sampled_from([Operator.IN, Operator.NOT_IN]),
        values=value_sets,
    ),
    st.builds(
        Requirement,
        key=names,
        operator=st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    ),
    st.builds(
        Requirement,
        key=names,
        operator=st.sampled_from([Operator.GT, Operator.LT]),
        values=st.integers(0, 99).map(lambda number: (str(number),)),
    ),
)


@given(st.lists(requirements, max_size=4))
def test_a_printed_label_selector_reads_back_equal(parts: list[Requirement]):
    query = LabelQuery(requirements=tuple(sorted(parts, key=lambda part: part.key)))

    assert parse_label_selector(str(query)) == query


def test_the_selector_of_an_object_can_be_printed():
    selector = LabelSelector(
        match_labels={"b": "2", "a": "1"},
        match_expressions=(Requirement(key="c", operator="NotIn", values=("x", "y")),),
    )

    assert str(LabelQuery.of(selector)) == "a=1,b=2,c notin (x,y)"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("metadata.name=x", True),
        ("metadata.name==x,spec.nodeName!=", True),
        ("metadata.name!=x", False),
        ("spec.nodeName=", False),
        ("status.phase=", True),
        ("metadata.name=x,,", True),
        (r"note=a\,b\=c\\d", True),
    ],
)
def test_field_selectors_are_read_as_kubernetes_reads_them(text: str, *, holds: bool):
    fields = {"metadata.name": "x", "spec.nodeName": "n1", "note": r"a,b=c\d"}

    assert parse_field_selector(text).matches(fields) is holds


@pytest.mark.parametrize("text", ["metadata.name", "=x", "a=b=c", r"a=\b", "a=b\\", "a!b"])
def test_bad_field_selectors_are_refused(text: str):
    with pytest.raises(SelectorError, match="bad selector"):
        parse_field_selector(text)


@given(st.lists(st.tuples(names, st.text(max_size=8), st.booleans()), max_size=3))
def test_a_printed_field_selector_reads_back_equal(parts: list[tuple[str, str, bool]]):
    selector = FieldSelector(
        requirements=tuple(
            FieldRequirement(path=path, value=value, negated=negated)
            for path, value, negated in parts
        )
    )

    assert parse_field_selector(str(selector)) == selector


def test_a_label_selector_reads_from_json():
    selector = msgspec.json.decode(
        b'{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["d"]}]}',
        type=LabelSelector,
    )

    assert selector.matches({"a": "b", "c": "d"})
