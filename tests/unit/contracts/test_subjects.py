import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.contracts.errors import BadSubject
from stromboli.contracts.facts import KindSynced, ObjectSeen
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
    assert ObjectSeen.template.parse(subject) == {"kind": "node", "namespace": "-", "name": "n1.zone"}


def test_a_filter_matches_anything_where_nothing_is_given():
    assert SubjectTemplate(INTENT_SUBJECT).filter(partition=7) == "vc.intent.7.*.*.*"


def test_a_subject_of_another_form_is_refused_with_the_expected_form():
    with pytest.raises(BadSubject, match=r"vc\.state\.sync"):
        KindSynced.template.parse("vc.state.pod.default.a")
