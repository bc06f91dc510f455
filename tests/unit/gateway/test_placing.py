"""Where pods are and which nodes exist, as the watch has shown it."""

import asyncio

import msgspec
import pytest

from stromboli.gateway.placing import Places, PodPlace, read_place

A = ("ns", "a")


def pod(uid: str = "u1", node: str = "", version: int = 1) -> bytes:
    spec = {"nodeName": node} if node else {}
    metadata = {"uid": uid, "resourceVersion": str(version)}
    return msgspec.json.encode({"metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"metadata":{"uid":"u"}}', PodPlace("u", "", ending=False, version=0)),
        (
            b'{"metadata":{"uid":"u"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}',
            PodPlace("u", "n", ending=False, version=0),
        ),
        (
            b'{"metadata":{"uid":"u"},"status":{"phase":"Failed"}}',
            PodPlace("u", "", ending=True, version=0),
        ),
        (
            b'{"metadata":{"uid":"u"},"status":{"phase":"Succeeded"}}',
            PodPlace("u", "", ending=True, version=0),
        ),
        (
            b'{"metadata":{"uid":"u","deletionTimestamp":"2024-05-28T09:18:50Z"}}',
            PodPlace("u", "", ending=True, version=0),
        ),
        (
            b'{"metadata":{"uid":"u","deletionTimestamp":null},"spec":null,"status":null}',
            PodPlace("u", "", ending=False, version=0),
        ),
        (
            b'{"metadata":{"uid":"u"},"spec":{"nodeName":null},"status":{"phase":null}}',
            PodPlace("u", "", ending=False, version=0),
        ),
    ],
)
def test_the_place_of_a_pod_is_read_from_its_json(raw: bytes, place: PodPlace):
    assert read_place(raw) == place


def test_a_pod_shows_in_the_version_in_which_the_watch_has_shown_it_on_a_node():
    places = Places()
    assert places.shown_at(A, "u1") == 0

    places.seen("pod", A, pod(version=3))
    assert places.shown_at(A, "u1") == 0

    places.seen("pod", A, pod(node="n1", version=4))
    assert places.shown_at(A, "u1") == 4
    assert places.shown_at(A, "u2") == 0

    places.gone("pod", A)
    assert places.shown_at(A, "u1") == 0


def test_a_pod_is_settled_when_it_is_on_a_node_or_gone():
    settled: list[str] = []
    places = Places(settled.append)
    places.seen("pod", A, pod(version=3))
    assert settled == []

    places.seen("pod", A, pod(node="n1", version=4))
    assert settled == ["u1"]

    places.gone("pod", A)
    assert settled == ["u1", "u1"]


def test_a_successor_of_the_same_name_shows_that_a_pod_is_gone():
    settled: list[str] = []
    places = Places(settled.append)
    places.seen("pod", A, pod("u1"))
    places.seen("pod", A, pod("u2"))

    assert settled == ["u1"]


def test_a_pod_that_a_complete_list_does_not_contain_is_gone():
    settled: list[str] = []
    places = Places(settled.append)
    places.seen("pod", A, pod("u1"))
    places.keep_only("pod", set())

    assert settled == ["u1"]


async def test_who_waits_for_a_pod_hears_the_version_in_which_it_is_on_a_node():
    places = Places()
    places.seen("pod", A, pod(version=3))
    waiting = asyncio.create_task(places.wait_for(A, "u1", 10))
    await asyncio.sleep(0)
    places.seen("pod", A, pod(version=4))
    await asyncio.sleep(0)
    assert not waiting.done()

    places.seen("pod", A, pod(node="n1", version=5))

    assert await waiting == 5
    assert await places.wait_for(A, "u1", 0) == 5


async def test_who_waits_for_a_pod_that_goes_need_not_wait_any_longer():
    places = Places()
    places.seen("pod", A, pod())
    waiting = asyncio.create_task(places.wait_for(A, "u1", 10))
    await asyncio.sleep(0)
    places.gone("pod", A)

    assert await waiting == 0


async def test_nobody_waits_for_a_pod_for_longer_than_the_limit():
    assert await Places().wait_for(A, "u1", 0.01) == 0


def test_nodes_come_and_go():
    places = Places()
    places.seen("node", ("", "n1"), b"{}")
    places.seen("node", ("", "n2"), b"{}")
    places.gone("node", ("", "n1"))
    places.gone("node", ("", "never"))

    assert places.nodes == {"n2"}


def test_other_kinds_have_no_place():
    settled: list[str] = []
    places = Places(settled.append)
    places.seen("vcjob", A, b"not even json")
    places.gone("vcjob", A)
    places.keep_only("vcjob", set())

    assert (places.pods, places.nodes, settled) == ({}, set(), [])


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
