"""An index of terms finds exactly the terms that pick a pod."""

from hypothesis import given
from hypothesis import strategies as st

from stromboli.api.selectors import Requirement
from stromboli.scheduling.social import Selector, Term
from stromboli.scheduling.term_index import TermIndex

words = st.sampled_from(["a", "b", "c"])
labels = st.dictionaries(words, words, max_size=3)
requirements = st.builds(
    lambda key, operator, values: Requirement(
        key=key,
        operator=operator,
        values=tuple(values) if operator in {"In", "NotIn"} else (),
    ),
    words,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(words, min_size=1, max_size=3),
)
selectors = st.builds(
    lambda found, wanted, nothing: Selector(
        labels=tuple(sorted(found.items())), requirements=tuple(wanted), nothing=nothing
    ),
    st.dictionaries(words, words, max_size=2),
    st.lists(requirements, max_size=2),
    st.booleans(),
)
terms = st.builds(
    Term,
    topology=words,
    selector=selectors,
    namespaces=st.lists(words, max_size=2).map(tuple),
    namespace_selector=st.none() | selectors,
)


@given(
    kept=st.lists(terms, max_size=6),
    gone=st.lists(terms, max_size=3),
    namespace=words,
    own=labels,
    known=st.dictionaries(words, labels, max_size=3),
)
def test_the_index_names_the_terms_that_pick_a_pod_each_once(
    kept: list[Term],
    gone: list[Term],
    namespace: str,
    own: dict[str, str],
    known: dict[str, dict[str, str]],
):
    index: TermIndex[tuple[str, int]] = TermIndex()
    for number, term in enumerate(gone):
        index.put(("gone", number), term)
    for number, term in enumerate(kept):
        index.put(("kept", number), term)
    for number, term in enumerate(gone):
        index.drop(("gone", number), term)

    found = list(index.picking(namespace, own, known))

    expected = [
        ("kept", number) for number, term in enumerate(kept) if term.matches(namespace, own, known)
    ]
    assert sorted(found) == expected
