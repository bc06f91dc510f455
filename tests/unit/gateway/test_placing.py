"""Where pods are and which nodes exist, as the watch has shown it."""

import msgspec
import pytest

from stromboli.gateway.placing import Places, PodPlace, read_place

A = ("ns", "a")


def pod(uid: str = "u1", node: str = "") -> bytes:
    spec = {"nodeName": node} if node else {}
    return msgspec.json.encode({"metadata": {"uid": uid}, "spec": spec})


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"metadata":{"uid":"u"}}', PodPlace("u", "", ending=False)),
        (
            b'{"metadata":{"uid":"u"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}',
            PodPlace("u", "n", ending=False),
        ),
        (
            b'{"metadata":{"uid":"u"},"status":{"phase":"Failed"}}',
            PodPlace("u", "", ending=True),
        ),
        (
            b'{"metadata":{"uid":"u"},"status":{"phase":"Succeeded"}}',
            PodPlace("u", "", ending=True),
        ),
        (
            b'{"metadata":{"uid":"u","deletionTimestamp":"2024-05-28T09:18:50Z"}}',
            PodPlace("u", "", ending=True),
        ),
        (
            b'{"metadata":{"uid":"u","deletionTimestamp":null},"spec":null,"status":null}',
            PodPlace("u", "", ending=False),
        ),
        (
            b'{"metadata":{"uid":"u"},"spec":{"nodeName":null},"status":{"phase":null}}',
            PodPlace("u", "", ending=False),
        ),
    ],
)
def test_the_place_of_a_pod_is_read_from_its_json(raw: bytes, place: PodPlace):
    assert read_place(raw) == place


def test_a_pod_is_placed_when_it_was_shown_on_a_node_with_this_uid():
    places = Places()
    assert not places.is_placed(A, "u1")

    places.seen("pod", A, pod())
    assert not places.is_placed(A, "u1")

    places.seen("pod", A, pod(node="n1"))
    assert places.is_placed(A, "u1")
    assert not places.is_placed(A, "u2")

    places.gone("pod", A)
    assert not places.is_placed(A, "u1")


def test_nodes_come_and_go():
    places = Places()
    places.seen("node", ("", "n1"), b"{}")
    places.seen("node", ("", "n2"), b"{}")
    places.gone("node", ("", "n1"))
    places.gone("node", ("", "never"))

    assert places.nodes == {"n2"}


def test_other_kinds_have_no_place():
    places = Places()
    places.seen("vcjob", A, b"not even json")
    places.gone("vcjob", A)
    places.keep_only("vcjob", set())

    assert places == Places()


def test_what_a_complete_list_does_not_contain_is_forgotten():
    places = Places()
    places.seen("pod", A, pod())
    places.seen("pod", ("ns", "b"), pod())
    places.seen("node", ("", "n1"), b"{}")
    places.keep_only("pod", {A})

    assert set(places.pods) == {A}
    assert places.nodes == {"n1"}

    places.keep_only("node", set())

    assert places.nodes == set()
    assert set(places.pods) == {A}
