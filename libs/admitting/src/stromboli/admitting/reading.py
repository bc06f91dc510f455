"""Type the JSON of a review, as far as rules look at it.

A review's object may be anything; whoever reads it here gets a typed object or a `Refusal`,
which carries the verdict. The message says where in the object the fault is, not its contents.
"""

from typing import TypeVar

import msgspec

from stromboli.admitting.questions import Json, Review, Verdict
from stromboli.admitting.rules import refused
from stromboli.api.errors import ApiError
from stromboli.api.kinds import Kind
from stromboli.api.meta import KubeObject
from stromboli.api.wire import read_object

__all__ = ["Refusal", "name_of", "old_of", "read", "shape_of", "typed", "without_nulls"]

T = TypeVar("T", bound=KubeObject)
S = TypeVar("S", bound=msgspec.Struct)


class Refusal(Exception):
    """Thrown where an object can't be read, caught in `review`: never leaves this package."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict.message)


def read(kind: Kind[T], review: Review) -> T:
    """The object that is to be created or that it is to become."""
    return typed(kind, review.object)


def old_of(kind: Kind[T], review: Review) -> T:
    """The object as it was before."""
    return typed(kind, review.old_object)


def typed(kind: Kind[T], manifest: Json) -> T:
    if not isinstance(manifest, dict):
        raise Refusal(refused("readable", f"expected a {kind.kind}, but the review has no object"))
    try:
        return read_object(kind, manifest)
    except ApiError as fault:
        raise Refusal(refused("readable", str(fault))) from fault


def name_of(review: Review, item: KubeObject) -> str:
    """The object's name; one that is still to be generated is as long as it will be."""
    metadata = item.metadata
    if metadata.name or review.name:
        return metadata.name or review.name
    return f"{metadata.generate_name}xxxxx" if metadata.generate_name else ""


def shape_of(shape: type[S], review: Review, kind: str) -> S:
    """The parts of an object that rules look at, for kinds that only admission reads."""
    if not isinstance(review.object, dict):
        raise Refusal(refused("readable", f"expected a {kind}, but the review has no object"))
    try:
        return msgspec.convert(without_nulls(review.object), shape)
    except msgspec.ValidationError as fault:
        raise Refusal(refused("readable", f"cannot read this as a {kind}: {fault}")) from fault


def without_nulls(value: Json) -> Json:
    """A copy without null members, which for Go are absent ones."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value
