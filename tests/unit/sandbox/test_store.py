from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.sandbox import commits
from stromboli.sandbox.changes import Change, Key
from stromboli.sandbox.documents import decode
from stromboli.sandbox.resources import Resource
from stromboli.sandbox.store import Store

THINGS = Resource(plural="things", kind="Thing", fields=("spec.colour",))


def document(name: str, **spec: object) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": meta, "spec": spec}


def test_each_write_is_the_next_revision_and_says_so() -> None:
    store = Store(window=10)

    first = commits.put(store, THINGS, document("a"))
    second = commits.put(store, THINGS, document("b"))

    assert (first.revision, second.revision) == (1, 2)
    assert decode(second.body)["metadata"]["resourceVersion"] == "2"


def test_a_revision_out_of_turn_is_refused_and_nothing_changes() -> None:
    store = Store(window=10)
    stored = commits.put(store, THINGS, document("a"))

    with pytest.raises(ValueError, match="cannot follow"):
        store.commit(Change(7, THINGS.key, stored, None))
    assert store.revision == 1
    assert store.get(THINGS.key, "ns", "a") is stored


def test_listeners_hear_of_a_change_after_it_happened() -> None:
    store = Store(window=10)
    heard: list[tuple[int, bool]] = []
    store.listen(
        lambda change: heard.append((change.revision, bool(store.bucket("things").objects)))
    )

    stored = commits.put(store, THINGS, document("a"))
    commits.remove(store, THINGS, stored)

    assert heard == [(1, True), (2, False)]


def test_a_journal_that_fails_leaves_the_store_unchanged() -> None:
    class FullDisk:
        def record(self, change: Change) -> None:
            raise OSError(f"no room for {change.revision}")

    store = Store(window=10, journal=FullDisk())

    with pytest.raises(OSError, match="no room"):
        commits.put(store, THINGS, document("a"))
    assert store.revision == 0
    assert store.get(THINGS.key, "ns", "a") is None


def test_an_object_is_found_by_its_uid_while_it_exists() -> None:
    store = Store(window=10)
    stored = commits.put(store, THINGS, document("a"))

    assert store.by_uid["uid-a"] == ("things", ("ns", "a"))
    commits.remove(store, THINGS, stored)
    assert "uid-a" not in store.by_uid


def test_selectable_fields_are_taken_from_the_document() -> None:
    store = Store(window=10)

    assert commits.put(store, THINGS, document("a", colour="red")).fields == ("red",)
    assert commits.put(store, THINGS, document("b")).fields == ("",)


def test_the_past_is_bounded_and_says_where_it_begins() -> None:
    store = Store(window=3)
    for number in range(10):
        commits.put(store, THINGS, document("a", number=number))

    history = store.bucket("things").history

    assert 3 <= len(history.after(history.floor)) < 6
    assert history.covers(history.floor)
    assert not history.covers(history.floor - 1)


def test_compaction_also_reaches_resources_that_come_later() -> None:
    store = Store(window=3)
    commits.put(store, THINGS, document("a"))
    store.compact(1)

    assert not store.bucket("later").history.covers(0)
    assert store.bucket("later").history.covers(1)


def test_a_tombstone_is_the_last_state_at_the_revision_of_the_end() -> None:
    store = Store(window=3)
    stored = commits.put(store, THINGS, document("a", colour="red"))

    last = decode(commits.tombstone(stored, 9))

    assert last["spec"] == {"colour": "red"}
    assert last["metadata"]["resourceVersion"] == "9"


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40),
    st.integers(1, 8),
)
def test_every_remembered_revision_can_be_listed_as_it_was(
    steps: list[tuple[str, bool]], window: int
) -> None:
    store = Store(window=window)
    bucket = store.bucket(THINGS.key)
    past: dict[int, dict[Key, bytes]] = {0: {}}
    for name, remove in steps:
        stored = store.get(THINGS.key, "ns", name)
        if remove and stored is not None:
            commits.remove(store, THINGS, stored)
        else:
            commits.put(store, THINGS, document(name))
        past[store.revision] = {key: one.body for key, one in bucket.objects.items()}

    for revision, objects in past.items():
        if bucket.history.covers(revision):
            rebuilt = {key: one.body for key, one in bucket.at(revision).items()}
            assert rebuilt == objects
