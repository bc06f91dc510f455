"""Whatever bytes arrive, decoding ends in a message, in UnknownTag or in Undecodable."""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stromboli.contracts import codec
from stromboli.contracts.errors import Undecodable, UnknownTag
from stromboli.contracts.facts import ObjectSeen
from stromboli.contracts.intents import AnyIntent, DeleteObject
from stromboli.contracts.outcomes import Reason, Refused

SAMPLES = {
    path.stem: path.read_bytes()
    for path in sorted((Path(__file__).parent / "samples").glob("*.msgpack"))
}
DECODERS: tuple[codec.Decoder[Any], ...] = (
    codec.facts,
    codec.intents,
    codec.outcomes,
    codec.history,
    codec.dead,
)
DEEP = b"\x82\xa4type\xa8dance.v1\xa1x" + b"\x91" * 5000 + b"\xc0"
"""A map whose second value is an array in an array in an array…"""

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message of ours with some bytes cut out and others put in."""
    data = draw(st.sampled_from(list(SAMPLES.values())))
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 4)))
    return data[:start] + draw(st.binary(max_size=4)) + data[end:]


@st.composite
def strange(draw: st.DrawFn) -> bytes:
    """A message of ours with fields missing or of other types."""
    fields: dict[str, Any] = msgspec.msgpack.decode(draw(st.sampled_from(list(SAMPLES.values()))))
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=3)):
        fields[name] = draw(values)
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=1)):
        del fields[name]
    return msgspec.msgpack.encode(fields)


def reads(data: bytes) -> None:
    for decoder in DECODERS:
        with contextlib.suppress(Undecodable):
            decoder.decode(data)
    try:
        envelope = codec.envelope_of(data)
    except Undecodable:
        return
    assert envelope.id
    assert 0 < envelope.lives_s <= 300


@settings(max_examples=300, deadline=None)
@example(b"")
@example(DEEP)
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\xc6\xff\xff\xff\xff")
@given(st.binary(max_size=40))
def test_rubbish_is_undecodable_and_never_anything_worse(data: bytes):
    reads(data)


@settings(max_examples=500, deadline=None)
@given(damaged())
def test_a_damaged_message_is_undecodable_or_still_a_message(data: bytes):
    reads(data)


@settings(max_examples=250, deadline=None)
@given(strange())
def test_a_message_with_strange_fields_is_undecodable_or_still_a_message(data: bytes):
    reads(data)


@settings(max_examples=200, deadline=None)
@given(values)
def test_an_envelope_is_read_or_undecodable_whatever_the_structure(value: object):
    reads(msgspec.msgpack.encode(value))


@settings(max_examples=300, deadline=None)
@given(strange() | damaged())
def test_whatever_intent_was_decoded_has_a_subject_and_so_has_its_refusal(data: bytes):
    """Otherwise it could neither be checked nor answered, and would come back for ever."""
    try:
        intent: AnyIntent = codec.intents.decode(data)
    except Undecodable:
        return
    refused = Refused(
        intent_id=intent.id,
        service=intent.service,
        shard=intent.shard,
        verb=intent.verb,
        kind=intent.kind,
        key=intent.key,
        reason=Reason.BAD_REQUEST,
        message="",
    )

    assert intent.subject().count(".") == 5
    assert refused.subject().count(".") == 4


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "a b"),
        ("id", "a\r\nNats-Expected-Last-Sequence: 0"),
        ("service", ""),
        ("service", "gate.*"),
        ("shard", "x y"),
        ("shard", ">"),
        ("kind", "pod\n"),
        ("kind", "*"),
        ("lives_s", float("nan")),
        ("lives_s", float("inf")),
        ("lives_s", 15000.0),
        ("lives_s", 0.0),
        ("lives_s", -1.0),
    ],
)
def test_an_intent_that_could_not_be_answered_or_would_never_expire_is_undecodable(
    field: str, value: object
):
    fields = {**msgspec.msgpack.decode(SAMPLES["delete.v2"]), field: value}

    with pytest.raises(Undecodable, match=f"delete.v2: .*{field}"):
        codec.intents.decode(msgspec.msgpack.encode(fields))


def test_a_tag_that_is_not_known_is_told_apart_from_rubbish():
    with pytest.raises(UnknownTag, match=r"not a state message: its type 'dance\.v1' is unknown"):
        codec.facts.decode(msgspec.msgpack.encode({"type": "dance.v1"}))
    with pytest.raises(Undecodable, match=r"object\.seen\.v1: Object missing required field"):
        codec.facts.decode(msgspec.msgpack.encode({"type": "object.seen.v1"}))


def test_a_message_of_another_family_is_of_unknown_type():
    with pytest.raises(UnknownTag):
        codec.facts.decode(SAMPLES["delete.v2"])


def test_defaults_are_not_sent():
    message = DeleteObject(id="i", key="k", service="s", kind="pod", name="n", uid="u")

    assert set(msgspec.msgpack.decode(codec.encode(message))) == {
        "type",
        "id",
        "key",
        "service",
        "kind",
        "name",
        "uid",
    }


def test_the_projection_of_a_fact_is_not_looked_into():
    """It belongs to the kind's own type; a view decodes it, the gateway compares its bytes."""
    fields: dict[str, Any] = {
        "type": "object.seen.v1",
        "kind": "pod",
        "name": "a",
        "uid": "u",
        "resource_version": "1",
        "projection": {"anything": [1, 2]},
    }
    fact = codec.facts.decode(msgspec.msgpack.encode(fields))

    assert isinstance(fact, ObjectSeen)
    assert bytes(fact.projection) == msgspec.msgpack.encode({"anything": [1, 2]})
