"""JSON patches that come a second time."""

import pytest

from stromboli.gateway.json_patches import Operation, holds, keys_of, unrepeatable

POD = {
    "metadata": {"annotations": {"a": "1", "a/b": "2"}, "labels": {}},
    "status": {"conditions": [{"type": "Ready"}]},
}


def operation(op: str, path: str, **more: object) -> Operation:
    return Operation(op, path, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "done",
    [
        operation("add", "/metadata/annotations/a", value="1"),
        operation("replace", "/metadata/annotations/a~1b", value="2"),
        operation("replace", "/status/conditions/0", value={"type": "Ready"}),
        operation("remove", "/metadata/annotations/gone"),
        operation("remove", "/nothing/here/either"),
        operation("copy", "/metadata/annotations/a", from_="/metadata/annotations/a"),
        operation("move", "/metadata/annotations/a", from_="/metadata/annotations/before"),
        operation("test", "/metadata/annotations/a", value="what it was before"),
    ],
)
def test_a_patch_is_done_when_the_object_is_as_it_wanted(done: Operation):
    assert holds([done], POD)


@pytest.mark.parametrize(
    "undone",
    [
        operation("add", "/metadata/annotations/a", value="2"),
        operation("add", "/metadata/annotations/new", value=None),
        operation("replace", "/status/conditions/1", value={"type": "Ready"}),
        operation("remove", "/metadata/annotations/a"),
        operation("copy", "/metadata/annotations/c", from_="/metadata/annotations/a"),
        operation("move", "/metadata/annotations/c", from_="/metadata/annotations/a"),
        operation("move", "/metadata/annotations/c", from_="/metadata/annotations/gone"),
    ],
)
def test_a_patch_is_not_done_when_anything_is_missing(undone: Operation):
    assert not holds([operation("add", "/metadata/annotations/a", value="1"), undone], POD)


@pytest.mark.parametrize(
    "unsafe",
    [
        operation("add", "/status/conditions/-", value={}),
        operation("add", "/status/conditions/0", value={}),
        operation("remove", "/status/conditions/0"),
        operation("copy", "/status/conditions/-", from_="/status/conditions/0"),
        operation("move", "/metadata/labels/x", from_="/status/conditions/0"),
    ],
)
def test_an_element_by_its_position_must_not_be_added_or_removed_twice(unsafe: Operation):
    assert unsafe.path in unrepeatable([unsafe])


def test_fields_may_be_changed_twice():
    assert not unrepeatable(
        [
            operation("test", "/status/conditions/0", value={"type": "Ready"}),
            operation("replace", "/status/conditions/0", value={"type": "Ready"}),
            operation("add", "/metadata/annotations/a", value="1"),
            operation("remove", "/metadata/annotations/b"),
        ]
    )


def test_what_does_not_begin_with_a_slash_is_no_pointer():
    with pytest.raises(ValueError, match="not a JSON pointer"):
        keys_of("metadata/labels")
