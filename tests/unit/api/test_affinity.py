"""Node selectors and tolerations, down to Kubernetes' edge cases."""

import pytest

from stromboli.api.core import NodeSelector, NodeSelectorTerm, Taint, Toleration
from stromboli.api.selectors import Requirement

IN_ZONE_A = Requirement(key="zone", operator="In", values=("a",))
IS_NODE_1 = Requirement(key="metadata.name", operator="In", values=("n1",))


def test_a_term_wants_all_its_labels_and_fields():
    term = NodeSelectorTerm(match_expressions=(IN_ZONE_A,), match_fields=(IS_NODE_1,))

    assert term.matches("n1", {"zone": "a"})
    assert not term.matches("n2", {"zone": "a"})
    assert not term.matches("n1", {"zone": "b"})


def test_an_empty_term_and_a_selector_without_terms_match_no_node():
    assert not NodeSelectorTerm().matches("n1", {"zone": "a"})
    assert not NodeSelector().matches("n1", {"zone": "a"})


def test_a_selector_is_satisfied_by_any_of_its_terms():
    selector = NodeSelector(
        node_selector_terms=(
            NodeSelectorTerm(match_fields=(IS_NODE_1,)),
            NodeSelectorTerm(match_expressions=(IN_ZONE_A,)),
        )
    )

    assert selector.matches("n1", {})
    assert selector.matches("n2", {"zone": "a"})
    assert not selector.matches("n2", {"zone": "b"})


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Like", value="yes"), False),
    ],
)
def test_a_toleration_tolerates_what_kubernetes_says(toleration: Toleration, *, tolerates: bool):
    taint = Taint(key="gpu", value="yes", effect="NoSchedule")

    assert toleration.tolerates(taint) is tolerates
