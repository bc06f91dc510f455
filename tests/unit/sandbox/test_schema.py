from typing import Any

import pytest

from stromboli.sandbox.causes import Cause
from stromboli.sandbox.schema import compiled, defaulted, pruned, validated


def wrong_type(wanted: str, actual: str) -> str:
    return f'Invalid value: "{actual}": f in body must be of type {wanted}: "{actual}"'


def wrong(value: str, sentence: str) -> str:
    return f"Invalid value: {value}: f in body should {sentence}"


def problems(schema: dict[str, Any], value: object) -> list[str]:
    found: list[Cause] = []
    validated(value, compiled(schema), "f", found)
    return [f"{cause.field}: {cause.message}" for cause in found]


INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({**INTEGER, "minimum": 0}, -1, wrong("-1", "be greater than or equal to 0")),
        ({**INTEGER, "maximum": 5}, 6, wrong("6", "be less than or equal to 5")),
        ({**INTEGER, "minimum": 0, "exclusiveMinimum": True}, 0, wrong("0", "be greater than 0")),
        ({**INTEGER, "maximum": 5, "exclusiveMaximum": True}, 5, wrong("5", "be less than 5")),
        ({**INTEGER, "multipleOf": 3}, 4, wrong("4", "be a multiple of 3")),
        (INTEGER, "x", wrong_type("integer", "string")),
        (INTEGER, 1.5, wrong_type("integer", "number")),
        (INTEGER, 2**63, wrong_type("integer", "number")),
        (INTEGER, True, wrong_type("integer", "boolean")),
        (INTEGER, None, wrong_type("integer", "null")),
        ({"type": "number"}, "1", wrong_type("number", "string")),
        ({"type": "boolean"}, "true", wrong_type("boolean", "string")),
        ({"type": "object"}, [], wrong_type("object", "array")),
        ({"x-kubernetes-int-or-string": True}, True, wrong_type("integer,string", "boolean")),
        ({**TEXT, "enum": ["a", "b"]}, "q", 'Unsupported value: "q": supported values: "a", "b"'),
        ({**TEXT, "minLength": 2}, "a", wrong('"a"', "be at least 2 chars long")),
        ({**TEXT, "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({**TEXT, "pattern": "^[a-z]+$"}, "A", wrong('"A"', "match '^[a-z]+$'")),
        ({**TEXT, "format": "date-time"}, "now", wrong_type("date-time", "now")),
        ({**TEXT, "format": "duration"}, "x", wrong_type("duration", "x")),
        ({"type": "array", "items": TEXT, "minItems": 1}, [], wrong("0", "have at least 1 items")),
        (
            {"type": "array", "items": TEXT, "maxItems": 1},
            ["a", "b"],
            "Too many: 2: must have at most 1 item",
        ),
        ({"type": "object", "minProperties": 1}, {}, wrong("0", "have at least 1 properties")),
        (
            {"type": "object", "maxProperties": 1},
            {"a": 1, "b": 2},
            "Too many: 2: must have at most 1 item",
        ),
    ],
)
def test_a_broken_rule_is_told_as_kubernetes_tells_it(
    schema: dict[str, Any], value: object, problem: str
) -> None:
    assert problems(schema, value) == [f"f: {problem}"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INTEGER, 1.0),
        (INTEGER, 2**63 - 1),
        ({**INTEGER, "format": "int32"}, 2**31),
        ({"type": "number"}, 1),
        ({**TEXT, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "5Gi"),
        ({"x-kubernetes-int-or-string": True}, 5),
        ({**TEXT, "pattern": "b"}, "abc"),
        ({**TEXT, "format": "date-time"}, "2026-01-02T03:04:05.123456789Z"),
        ({**TEXT, "format": "date-time"}, "2026-01-02T03:04:05+02:00"),
        ({**TEXT, "format": "duration"}, "1h30m"),
        ({**TEXT, "format": "made-up"}, "x"),
        ({**TEXT, "pattern": "(unbalanced"}, "x"),
        ({"x-kubernetes-preserve-unknown-fields": True}, [{"any": 1}]),
    ],
)
def test_a_value_that_keeps_the_rules_passes(schema: dict[str, Any], value: object) -> None:
    assert problems(schema, value) == []


def test_required_fields_are_named_at_their_place() -> None:
    schema = {
        "type": "array",
        "items": {"type": "object", "required": ["name"], "properties": {"name": TEXT}},
    }

    assert problems(schema, [{"name": "a"}, {}]) == ["f[1].name: Required value"]


def test_a_set_has_no_equal_items_and_a_map_no_equal_keys() -> None:
    item = {"type": "object", "properties": {"name": TEXT}}
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    plain = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}

    assert problems(plain, ["a", "b", "a"]) == ['f[2]: Duplicate value: "a"']
    assert problems(keyed, [{"name": "a"}, {"name": "a", "x": 1}]) == [
        'f[1]: Duplicate value: {"name":"a"}'
    ]


def test_branches_say_how_many_fit() -> None:
    choice = {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}

    assert problems(choice, {"x": 1}) == []
    (both,) = problems(choice, {"x": 1, "y": 1})
    assert both.startswith('<nil>: Invalid value: "": "f" must validate one and only one schema')
    assert both.endswith("(oneOf). Found 2 valid alternatives")
    assert len(problems(choice, {})) == 2


def test_any_all_and_not() -> None:
    any_of = {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}]}
    all_of = {**INTEGER, "allOf": [{"minimum": 3}, {"maximum": 5}]}
    negated = {**TEXT, "not": {"enum": ["bad"]}}

    assert problems(any_of, {"y": 1}) == []
    assert problems(any_of, {})
    assert problems(all_of, 4) == []
    assert problems(all_of, 2)
    assert problems(negated, "good") == []
    assert problems(negated, "bad") == [
        '<nil>: Invalid value: "": "f" must not validate the schema (not)'
    ]


def test_unknown_fields_are_pruned_unless_they_are_preserved() -> None:
    node = compiled(
        {
            "type": "object",
            "properties": {
                "known": {"type": "object", "properties": {"a": INTEGER}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "map": {"type": "object", "additionalProperties": {"type": "object"}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}},
            },
        }
    )

    result = pruned(
        {
            "known": {"a": 1, "z": 1},
            "free": {"z": 1},
            "map": {"k": {"z": 1}},
            "list": [{"b": "x", "z": 1}],
            "z": 1,
        },
        node,
    )

    assert result == {
        "known": {"a": 1},
        "free": {"z": 1},
        "map": {"k": {}},
        "list": [{"b": "x"}],
    }


def test_the_envelope_of_the_root_survives_any_schema() -> None:
    root = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "z": 1}

    assert pruned(root, compiled({"type": "object"}), root=True) == {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"name": "n"},
    }


def test_a_null_that_may_not_be_null_counts_as_absent() -> None:
    node = compiled(
        {
            "type": "object",
            "properties": {"a": {**TEXT, "default": "x"}, "b": {**TEXT, "nullable": True}},
        }
    )

    value = pruned({"a": None, "b": None}, node)
    defaulted(value, node)

    assert value == {"a": "x", "b": None}


def test_defaults_fill_in_below_existing_objects_only() -> None:
    inner = {"type": "object", "properties": {"c": {**INTEGER, "default": 1}}}
    node = compiled(
        {
            "type": "object",
            "properties": {
                "made": {**inner, "default": {}},
                "absent": inner,
                "items": {"type": "array", "items": inner},
            },
        }
    )
    value: dict[str, Any] = {"items": [{}, {"c": 5}]}

    defaulted(value, node)

    assert value == {"made": {"c": 1}, "items": [{"c": 1}, {"c": 5}]}


def test_a_default_is_copied_for_each_object() -> None:
    node = compiled({"type": "object", "properties": {"l": {"type": "array", "default": []}}})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    defaulted(first, node)
    defaulted(second, node)

    first["l"].append(1)

    assert second == {"l": []}
