"""Which nodes are in which part of the network, and what is made of descriptions that can't be."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stromboli.api.scheduling import NetworkTopologySpec
from stromboli.api.selectors import LabelSelector, Requirement
from stromboli.api.topology import (
    HyperNode,
    HyperNodeSpec,
    Member,
    MemberSelector,
    RegexMatch,
)
from stromboli.scheduling.errors import BadFact
from stromboli.scheduling.hypernodes import HyperNodes, read_hyper_node
from stromboli.scheduling.network import TOP, DomainSums, Network
from stromboli.scheduling.nodes import NodeFacts, NodeTable
from stromboli.scheduling.resources import ResourceIndex
from stromboli.testkit.scheduling_objects import hyper_node


def table(*names: str, labels: dict[str, dict[str, str]] | None = None) -> NodeTable:
    nodes = NodeTable(ResourceIndex())
    for name in names:
        of_node = (labels or {}).get(name, {})
        nodes.put(NodeFacts(name, labels=tuple(of_node.items())), (("cpu", 1000),))
    nodes.settle()
    return nodes


def known(*items: HyperNode) -> HyperNodes:
    found = HyperNodes()
    for item in items:
        found.put(read_hyper_node(item))
    return found


def members_of(network: Network, nodes: NodeTable) -> dict[str, list[str]]:
    return {
        name: [nodes.names[slot] for slot in network.slots(number).tolist()]
        for number, name in enumerate(network.names)
    }


def by_pattern(pattern: str) -> Member:
    return Member(type="Node", selector=MemberSelector(regex_match=RegexMatch(pattern=pattern)))


def by_label(key: str, value: str) -> Member:
    selector = LabelSelector(match_labels={key: value})
    return Member(type="Node", selector=MemberSelector(label_match=selector))


RACKS = (
    hyper_node("rack-a", 1, nodes=["a1", "a2"]),
    hyper_node("rack-b", 1, nodes=["b1"]),
    hyper_node("hall", 2, parts=["rack-a", "rack-b"]),
)


def test_members_of_members_are_members_and_above_all_stands_the_whole_cluster():
    nodes = table("a1", "a2", "b1", "z9")
    network = known(*RACKS).network(nodes)

    assert members_of(network, nodes) == {
        "rack-a": ["a1", "a2"],
        "rack-b": ["b1"],
        "hall": ["a1", "a2", "b1"],
        TOP: ["a1", "a2", "b1", "z9"],
    }
    assert network.tiers.tolist() == [1, 1, 2, 3]
    assert [network.names[each] for each in network.parents] == ["hall", "hall", TOP, TOP]
    assert [network.names[each] for each in network.leaf] == ["rack-a", "rack-a", "rack-b", TOP]


def test_without_hypernodes_there_is_one_domain_of_tier_1():
    network = HyperNodes().network(table("a1"))

    assert (network.names, network.tiers.tolist()) == ([TOP], [1])


def test_a_network_without_nodes_has_sums_of_nothing():
    nodes = table()
    network = known(*RACKS).network(nodes)

    assert network.sums(nodes.allocatable).tolist() == [[0], [0], [0]]


def test_nodes_are_picked_by_pattern_and_by_label_and_again_when_they_change():
    hyper_nodes = known(
        hyper_node("odd", 1, members=[by_pattern("^n[13]$")]),
        hyper_node("fast", 1, members=[by_label("net", "fast")]),
    )
    nodes = table("n1", "n2", "n3", labels={"n2": {"net": "fast"}})
    before = members_of(hyper_nodes.network(nodes), nodes)

    nodes.put(NodeFacts("n2"), ())
    nodes.put(NodeFacts("n1", labels=(("net", "fast"),)), ())
    nodes.remove("n3")
    nodes.settle()
    after = members_of(hyper_nodes.network(nodes), nodes)

    assert (before["odd"], before["fast"]) == (["n1", "n3"], ["n2"])
    assert (after["odd"], after["fast"]) == (["n1"], ["n1"])


def test_a_network_is_made_anew_only_when_something_changed():
    hyper_nodes, nodes = known(*RACKS), table("a1", "a2", "b1")
    first = hyper_nodes.network(nodes)

    assert not hyper_nodes.put(read_hyper_node(RACKS[0]))
    nodes.take("a1", (("cpu", 500),))
    assert hyper_nodes.network(nodes) is first
    assert hyper_nodes.remove("rack-b")
    assert hyper_nodes.network(nodes) is not first


@pytest.mark.parametrize(
    ("items", "left", "problem"),
    [
        (
            [hyper_node("one", 1, parts=["other"]), hyper_node("other", 2, parts=["one"])],
            [],
            ("one", "it is set aside: its member other has tier 2, expected less than its own 1"),
        ),
        (
            [*RACKS, hyper_node("mall", 2, nodes=["z9"], parts=["rack-b"])],
            ["rack-a", "rack-b", "hall"],
            ("mall", "it is set aside: its member rack-b is in hall already"),
        ),
        (
            [*RACKS, hyper_node("site", 3, nodes=["z9"], parts=["hall", "gone"])],
            ["rack-a", "rack-b", "hall", "site"],
            ("site", "it goes on without its member gone: that is not usable"),
        ),
        (
            [hyper_node("self", 1, nodes=["a1"], parts=["self"]), RACKS[0]],
            ["rack-a"],
            ("self", "it is set aside: its member self has tier 1, expected less than its own 1"),
        ),
    ],
    ids=["circle", "two-parents", "missing-member", "itself"],
)
def test_what_can_not_be_is_set_aside_with_a_reason_and_the_others_go_on(
    items: list[HyperNode], left: list[str], problem: tuple[str, str]
):
    nodes = table("a1", "a2", "b1", "z9")
    hyper_nodes = known(*items)

    assert hyper_nodes.network(nodes).names == [*left, TOP]
    assert (hyper_nodes.problems | hyper_nodes.incomplete)[problem[0]] == problem[1]


@given(st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_in_which_hypernodes_come_does_not_matter(rng: random.Random):
    items = [
        *RACKS,
        hyper_node("mall", 2, parts=["rack-b"]),
        hyper_node("site", 3, parts=["hall", "mall"]),
        hyper_node("loop", 2, parts=["site"]),
    ]
    shuffled = list(items)
    rng.shuffle(shuffled)
    nodes = table("a1", "a2", "b1")
    one, other = known(*items), known(*shuffled)

    assert members_of(one.network(nodes), nodes) == members_of(other.network(nodes), nodes)
    assert one.problems == other.problems


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        (by_pattern("[invalid"), "the pattern '\\[invalid'"),
        (by_pattern("a" * 5000), "5000 characters, expected at most 4096"),
        (Member(type="Node"), "has no exactMatch with a name"),
        (Member(type="Switch"), "a member is a 'Switch', expected Node or HyperNode"),
        (
            Member(
                type="HyperNode", selector=MemberSelector(regex_match=RegexMatch(pattern="r.*"))
            ),
            "a member HyperNode has no exactMatch",
        ),
        (
            Member(
                type="Node",
                selector=MemberSelector(
                    label_match=LabelSelector(
                        match_expressions=(Requirement(key="a", operator="Near"),)
                    )
                ),
            ),
            "Near",
        ),
    ],
)
def test_a_member_that_nobody_can_find_is_a_bad_fact(member: Member, problem: str):
    with pytest.raises(BadFact, match=problem):
        read_hyper_node(hyper_node("odd", 1, members=[member]))


def test_a_negative_tier_is_a_bad_fact():
    item = HyperNode(spec=HyperNodeSpec(tier=-1))

    with pytest.raises(BadFact, match="its tier is -1, expected 0 or more"):
        read_hyper_node(item)


# Kinship.


def numbered(network: Network, *names: str) -> list[int]:
    return [network.names.index(name) for name in names]


def test_domains_below_and_above_and_where_they_meet():
    nodes = table("a1", "a2", "b1", "z9")
    network = known(*RACKS, hyper_node("far", 1, nodes=["z9"])).network(nodes)
    far, rack_a, rack_b, hall, top = numbered(network, "far", "rack-a", "rack-b", "hall", TOP)

    assert network.below(hall).tolist() == [rack_a, rack_b, hall]
    assert network.below(top).tolist() == [far, rack_a, rack_b, hall, top]
    assert network.lineage(rack_b) == [rack_b, hall, top]
    assert network.meeting(rack_a)[[rack_a, rack_b, hall, far]].tolist() == [
        rack_a,
        hall,
        hall,
        top,
    ]
    assert network.smallest(np.array([0, 2])) == hall
    assert network.smallest(np.array([1])) == rack_a
    assert network.smallest(np.array([0, 3])) == top
    assert network.at_tier(2).tolist() == [hall, hall, hall, -1]
    assert (network.reach(rack_a, 2), network.reach(hall, 1)) == (hall, None)


@pytest.mark.parametrize(
    ("asked", "within", "highest"),
    [
        (None, 2, None),
        (NetworkTopologySpec(mode="hard", highest_tier_allowed=1), None, 1),
        (NetworkTopologySpec(highest_tier_allowed=9), None, 3),
        (NetworkTopologySpec(mode="hard", highest_tier_name="rack"), None, 1),
        (NetworkTopologySpec(mode="hard", highest_tier_name="moon"), None, 3),
        (NetworkTopologySpec(mode="soft", highest_tier_allowed=1), None, 3),
        (NetworkTopologySpec(mode="soft"), 2, 2),
    ],
)
def test_the_highest_tier_is_a_number_or_a_name_and_unlimited_where_nothing_limits_it(
    asked: NetworkTopologySpec | None, within: int | None, highest: int | None
):
    racks = (
        hyper_node("rack-a", 1, nodes=["a1"], tier_name="rack"),
        hyper_node("hall", 2, parts=["rack-a"], tier_name="hall"),
    )
    network = known(*racks).network(table("a1"))

    assert network.highest(asked, within=within) == highest


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=5), st.integers(101, 120))
@settings(max_examples=40, deadline=None)
def test_sums_that_follow_changes_are_those_that_are_added_up_anew(
    steps: list[list[int]], many: int
):
    names = [f"n{number:03}" for number in range(many)]
    parts = [hyper_node("low", 1, nodes=names[:4]), hyper_node("also", 1, nodes=names[2:6])]
    network = known(*parts, hyper_node("high", 2, parts=["low"])).network(table(*names))
    amounts = np.arange(2 * many, dtype=np.int64).reshape(2, many)
    kept = DomainSums(network, amounts)
    for number, slots in enumerate([*steps, range(many)]):
        where = np.unique(np.array(list(slots), dtype=np.int64))
        amounts[:, where] -= number + 7
        kept.follow(amounts, where)

        assert kept.sums.tolist() == network.sums(amounts).tolist()
