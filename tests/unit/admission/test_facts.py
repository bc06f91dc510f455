"""What admission knows of the cluster is what STATE says, counted right at any moment."""

from typing import Any

import pytest

from stromboli.admission.facts import KINDS, ClusterFacts, Overlaid
from stromboli.api.meta import ObjectMeta
from stromboli.api.scheduling import Queue, QueueSpec
from stromboli.testkit.told_views import ToldView


def queue(name: str, parent: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": parent}}


def group(name: str, queue_name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"queue": queue_name}}


def pod(name: str, group_name: str, *, node: str = "", phase: str = "Pending") -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": group_name}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


@pytest.fixture
def facts() -> ClusterFacts:
    return ClusterFacts(connected=lambda: True)


@pytest.fixture
def told(facts: ClusterFacts) -> ToldView:
    return ToldView(facts.view)


def test_nothing_is_known_before_every_kind_was_read(facts: ClusterFacts, told: ToldView):
    told.sync(KINDS[:-1])
    assert not facts.is_synced
    assert facts.not_ready is not None

    told.sync(KINDS[-1:])
    assert facts.is_synced
    assert facts.not_ready is None
    assert facts.doubt == ""


def test_what_was_known_once_stays_usable_and_says_that_it_may_be_old(
    facts: ClusterFacts, told: ToldView
):
    told.seen("queue", queue("gold"))
    told.sync(KINDS)
    facts.connected = lambda: False
    assert "NATS" in facts.doubt
    assert facts.is_synced

    facts.connected = lambda: True
    told.begin("another log")
    assert facts.is_synced
    assert "anew" in facts.doubt
    assert facts.queue("gold") is not None

    told.sync(KINDS)
    assert facts.queue("gold") is None
    assert facts.doubt == ""


def test_children_follow_their_parents(facts: ClusterFacts, told: ToldView):
    told.seen("queue", queue("b", "root"))
    told.seen("queue", queue("a", "root"))
    assert [child.metadata.name for child in facts.children_of("root")] == ["a", "b"]

    told.seen("queue", queue("a", "b"), version="2")
    assert [child.metadata.name for child in facts.children_of("root")] == ["b"]
    assert [child.metadata.name for child in facts.children_of("b")] == ["a"]

    told.gone("queue", "a")
    assert list(facts.children_of("b")) == []


def test_a_pod_counts_for_its_queue_while_it_holds_a_node(facts: ClusterFacts, told: ToldView):
    told.seen("pod", pod("one", "gang", node="n1", phase="Running"))
    told.seen("pod", pod("two", "gang"))
    told.seen("vcpodgroup", group("gang", "gold"))
    assert (facts.allocated_pods("gold"), facts.pod_groups_in("gold")) == (1, 1)

    told.seen("pod", pod("two", "gang", node="n1"), version="2")
    assert facts.allocated_pods("gold") == 2

    told.seen("pod", pod("one", "gang", node="n1", phase="Succeeded"), version="3")
    assert facts.allocated_pods("gold") == 1

    told.seen("vcpodgroup", group("gang", "silver"), version="4")
    assert (facts.allocated_pods("gold"), facts.allocated_pods("silver")) == (0, 1)

    told.gone("pod", "two", "default")
    assert facts.allocated_pods("silver") == 0


def test_namespaces_are_known_by_their_annotations(facts: ClusterFacts, told: ToldView):
    told.seen("namespace", {"metadata": {"name": "team", "annotations": {"key": "value"}}})

    assert facts.namespace_annotations("team") == {"key": "value"}
    assert facts.namespace_annotations("other") == {}


def test_a_queue_that_was_looked_up_stands_beside_those_that_are_known(
    facts: ClusterFacts, told: ToldView
):
    told.seen("queue", queue("known", "root"))
    new = Queue(metadata=ObjectMeta(name="new"), spec=QueueSpec(parent="root"))
    seen = Overlaid(facts, {"new": new})

    assert seen.queue("new") is new
    assert seen.queue("known") is not None
    assert [child.metadata.name for child in seen.children_of("root")] == ["known", "new"]
    assert len(list(seen.queues())) == 2
