import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.contracts.errors import BadSubject
from stromboli.contracts.facts import KindSynced, ObjectSeen, object_at
from stromboli.contracts.intents import INTENT_SUBJECT
from stromboli.contracts.subjects import SubjectTemplate, escape, unescape

names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)


@given(names)
def test_a_kubernetes_name_survives_the_way_through_a_subject(name: str):
    assert unescape(escape(name)) == name


@given(names, names)
def test_different_objects_never_share_a_subject(one: str, other: str):
    template = ObjectSeen.template
    first = template.fill({"kind": "pod", "namespace": one, "name": other})
    second = template.fill({"kind": "pod", "namespace": other, "name": one})

    assert (first == second) == (one == other)


@pytest.mark.parametrize("bad", ["", "a b", "a*", ">", "a_b", "ä", "a\n", "a\0b"])
def test_a_value_that_would_change_the_subjects_meaning_is_refused(bad: str):
    with pytest.raises(BadSubject):
        escape(bad)


def test_a_cluster_scoped_object_uses_a_dash_for_its_namespace():
    subject = ObjectSeen.template.fill({"kind": "node", "namespace": "", "name": "n1.zone"})

    assert subject == "vc.state.node.-.n1_zone"
    assert ObjectSeen.template.parse(subject) == {
        "kind": "node",
        "namespace": "-",
        "name": "n1.zone",
    }


def test_nothing_but_a_namespace_may_be_empty():
    with pytest.raises(BadSubject):
        ObjectSeen.template.fill({"kind": "node", "namespace": "", "name": ""})
    with pytest.raises(BadSubject):
        ObjectSeen.template.fill({"kind": "", "namespace": "", "name": "n1"})


@given(st.text(max_size=20))
def test_whatever_is_filled_in_stays_one_token(value: str):
    try:
        subject = ObjectSeen.template.fill({"kind": "pod", "namespace": "ns", "name": value})
    except BadSubject:
        return
    assert subject.count(".") == 4
    assert ObjectSeen.template.parse(subject)["name"] == value
    assert object_at(subject) == ("pod", "ns", value)


def test_a_subject_tells_which_object_it_belongs_to():
    assert object_at("vc.state.node.-.n1_zone") == ("node", "", "n1.zone")
    assert object_at("vc.state.pod.ns.a") == ("pod", "ns", "a")


def test_a_filter_matches_anything_where_nothing_is_given():
    assert SubjectTemplate(INTENT_SUBJECT).filter(partition=7) == "vc.intent.7.*.*.*"
    assert ObjectSeen.template.filter(kind="node", namespace="") == "vc.state.node.-.*"


def test_a_subject_of_another_form_is_refused_with_the_expected_form():
    with pytest.raises(BadSubject, match=r"vc\.state\.sync"):
        KindSynced.template.parse("vc.state.pod.default.a")
