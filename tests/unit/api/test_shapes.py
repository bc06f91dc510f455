"""The rules that every type of ours keeps, checked on all of them."""

from typing import Any

import msgspec
import pytest
from msgspec import NODEFAULT
from msgspec import inspect as types

from stromboli.api.fieldtypes import Shape
from stromboli.api.kinds import KINDS
from stromboli.api.meta import KubeObject


def shapes_in(type_: types.Type) -> set[type[Any]]:
    match type_:
        case types.StructType(cls=cls, fields=fields):
            return {cls}.union(*(shapes_in(part.type) for part in fields))
        case types.Metadata(type=inner):
            return shapes_in(inner)
        case types.UnionType(types=options):
            return set[type[Any]]().union(*(shapes_in(option) for option in options))
        case types.DictType(value_type=value):
            return shapes_in(value)
        case types.VarTupleType(item_type=item):
            return shapes_in(item)
        case _:
            return set()


SHAPES = sorted(
    set[type[Shape]]().union(*(shapes_in(types.type_info(kind.type)) for kind in KINDS)),
    key=lambda cls: f"{cls.__module__}.{cls.__qualname__}",
)
by_name = pytest.mark.parametrize("shape", SHAPES, ids=lambda cls: cls.__qualname__)


@by_name
def test_everything_may_be_absent_and_defaults_keep_equal_objects_equal_as_bytes(
    shape: type[Shape],
):
    """msgspec omits a default by identity, so it must be a singleton, or made anew each time."""
    for part in msgspec.structs.fields(shape):
        if part.default_factory is NODEFAULT:
            assert part.default in ("", 0, False, None, ()), part.name
        else:
            assert part.default_factory is dict or issubclass(part.default_factory, Shape), part


@by_name
def test_every_shape_is_immutable_keyword_only_and_blind_to_unknown_fields(shape: type[Shape]):
    config = shape.__struct_config__

    assert config.frozen
    assert config.omit_defaults
    assert not config.forbid_unknown_fields
    with pytest.raises(TypeError, match="positional"):
        shape("positional")  # pyright: ignore[reportCallIssue]


@by_name
def test_nothing_makes_the_decoder_stricter_than_the_wire(shape: type[Shape]):
    def constraints(type_: types.Type) -> list[object]:
        match type_:
            case types.Metadata(type=inner):
                return constraints(inner)
            case types.UnionType(types=options):
                return [found for option in options for found in constraints(option)]
            case types.VarTupleType(item_type=item):
                return [type_.min_length, type_.max_length, *constraints(item)]
            case types.DictType(value_type=value):
                return [type_.min_length, type_.max_length, *constraints(value)]
            case types.StrType():
                return [type_.min_length, type_.max_length, type_.pattern]
            case types.IntType():
                return [type_.ge, type_.gt, type_.le, type_.lt, type_.multiple_of]
            case _:
                return []

    info = types.type_info(shape)
    assert isinstance(info, types.StructType)

    assert [part.name for part in info.fields if any(constraints(part.type))] == []


def test_all_kinds_are_objects_with_metadata_first():
    for kind in KINDS:
        assert issubclass(kind.type, KubeObject)
        assert msgspec.structs.fields(kind.type)[0].name == "metadata"
