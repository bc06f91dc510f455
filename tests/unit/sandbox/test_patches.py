import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.sandbox.patches import (
    PatchFailed,
    PatchUnreadable,
    json_patch,
    merge_patch,
)


def patched(document: dict[str, Any], *operations: dict[str, Any]) -> dict[str, Any]:
    return json_patch(json.dumps(operations).encode(), document)


def merged(document: dict[str, Any], patch: object) -> dict[str, Any]:
    return merge_patch(json.dumps(patch).encode(), document)


def op(kind: str, path: str, **more: object) -> dict[str, Any]:
    return {"op": kind, "path": path, **more}


def test_add_sets_a_member_or_inserts_an_item() -> None:
    document = {"a": {"b": 1}, "l": [1, 3]}

    result = patched(
        document, op("add", "/a/c", value=2), op("add", "/l/1", value=2), op("add", "/l/-", value=4)
    )

    assert result == {"a": {"b": 1, "c": 2}, "l": [1, 2, 3, 4]}


def test_slashes_and_tildes_in_keys_are_escaped() -> None:
    result = patched({"m": {}}, op("add", "/m/a~1b", value=1), op("add", "/m/c~0d", value=2))

    assert result == {"m": {"a/b": 1, "c~d": 2}}


def test_remove_move_and_copy() -> None:
    result = patched(
        {"a": 1, "l": [{"x": 1}, 2]},
        op("copy", "/c", **{"from": "/l/0"}),
        op("move", "/b", **{"from": "/a"}),
        op("remove", "/l/1"),
    )

    assert result == {"b": 1, "c": {"x": 1}, "l": [{"x": 1}]}


def test_a_copied_value_is_not_shared() -> None:
    result = patched(
        {"a": {"x": 1}}, op("copy", "/b", **{"from": "/a"}), op("replace", "/b/x", value=2)
    )

    assert result == {"a": {"x": 1}, "b": {"x": 2}}


def test_replace_puts_what_was_not_there_as_kubes_library_does() -> None:
    assert patched({"m": {}}, op("replace", "/m/a", value=1)) == {"m": {"a": 1}}


def test_a_test_that_holds_lets_the_patch_through() -> None:
    document = {"u": "x", "n": None}

    assert patched(document, op("test", "/u", value="x"), op("remove", "/n")) == {"u": "x"}


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/a", value=2),
        op("test", "/a", value=True),
        op("test", "/a", value=1.5),
        op("test", "/no/where", value=None),
        op("remove", "/b"),
        op("remove", ""),
        op("remove", "/l/9"),
        op("add", "/x/y", value=1),
        op("add", "/a/b", value=1),
        op("add", "/l/9", value=1),
        op("add", "/l/x", value=1),
        op("add", "/b"),
        op("replace", "/a/b", value=1),
        op("move", "/m/inner", **{"from": "/m"}),
        op("bogus", "/a"),
        op("add", "no-slash", value=1),
        op("add", "", value=[]),
    ],
)
def test_a_patch_that_does_not_fit_fails(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchFailed):
        patched({"a": 1, "l": [], "m": {}}, operation)


def test_a_test_for_null_holds_where_the_member_is_absent() -> None:
    assert patched({"a": 1}, op("test", "/b", value=None)) == {"a": 1}


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"5", b'[{"op": 5}]', b"\xff"])
def test_what_is_no_json_patch_cannot_be_read(body: bytes) -> None:
    with pytest.raises(PatchUnreadable):
        json_patch(body, {})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"null", b"\xff"])
def test_what_is_no_merge_patch_cannot_be_read(body: bytes) -> None:
    with pytest.raises(PatchUnreadable):
        merge_patch(body, {})


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(PatchUnreadable, match="maximum operations"):
        patched({}, *[op("add", "/a", value=1)] * 10_001)


def test_merge_replaces_lists_merges_maps_and_removes_nulls() -> None:
    document = {"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1}

    result = merged(document, {"a": {"b": None, "d": {"e": None}}, "l": [3], "x": {"y": 1}})

    assert result == {"a": {"c": 2, "d": {}}, "l": [3], "x": {"y": 1}}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(st.text(max_size=2), _VALUES, max_size=4)


@given(_DOCUMENTS, _DOCUMENTS)
def test_merging_a_patch_twice_changes_nothing_more(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    once = merged(document, patch)

    assert merged(json.loads(json.dumps(once)), patch) == once


@given(_DOCUMENTS, _DOCUMENTS)
def test_replacing_every_member_gives_the_other_document(
    document: dict[str, Any], wanted: dict[str, Any]
) -> None:
    def pointer(key: str) -> str:
        return "/" + key.replace("~", "~0").replace("/", "~1")

    operations = [op("remove", pointer(key)) for key in document]
    operations += [op("add", pointer(key), value=value) for key, value in wanted.items()]

    assert patched(dict(document), *operations) == wanted
