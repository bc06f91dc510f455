"""Every message that was ever sent can still be read, and means what it meant.

The samples were written once and are never written again: a stream may hold messages as old as
they are. Run this file to write the samples of new message types; it touches no other.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.contracts import codec
from stromboli.contracts.epochs import Epoch
from stromboli.contracts.errors import Undecodable, UnknownTag
from stromboli.contracts.facts import KindSynced, ObjectGone, ObjectSeen
from stromboli.contracts.intents import (
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    PatchObject,
    PatchType,
    PodBinding,
    Verb,
    intent_id,
)
from stromboli.contracts.messages import DECLARED, Message
from stromboli.contracts.outcomes import (
    Applied,
    AssumedPod,
    FenceAnswered,
    GangBound,
    GatewayTurn,
    PodBound,
    Reason,
    Refused,
    Uncertain,
)
from stromboli.contracts.records import DeadLetter, HistoryRecorded

SAMPLES = Path(__file__).parent / "samples"

_PROJECTION = msgspec.Raw(msgspec.msgpack.encode({"metadata": {"name": "mpi-0"}}))

_ENVELOPE: dict[str, Any] = {
    "cause": "watch/pod/41",
    "id": "8c1f3a",
    "key": "vcjob/ns/mpi",
    "service": "controllers",
    "shard": "west",
    "epoch": Epoch(1700000000000000000, 7),
    "lives_s": 20.0,
    "sent_at": 1700000000.25,
}
_ANSWER: dict[str, Any] = {
    "cause": "8c1f3a",
    "intent_id": "8c1f3a",
    "service": "scheduler",
    "shard": "west",
    "key": "vcjob/ns/mpi",
    "at": 1700000001.5,
}
_OBJECT: dict[str, Any] = {
    "cause": "list/pod",
    "kind": "pod",
    "namespace": "ns",
    "name": "mpi-0",
    "uid": "5f0c",
    "resource_version": "42",
    "projection": _PROJECTION,
}

STORED: dict[str, Message] = {
    "object.seen.v1": ObjectSeen(**_OBJECT),
    "object.gone.v1": ObjectGone(**_OBJECT),
    "kind.synced.v1": KindSynced(
        cause="list/pod",
        kind="pod",
        incarnation="2024-05-28T09:18:50.1Z",
        resource_version="42",
        count=3,
    ),
    "create.v2": CreateObject(
        **_ENVELOPE,
        kind="pod",
        namespace="ns",
        name="mpi-0",
        owner_uid="5f0c",
        manifest=b'{"kind":"Pod"}',
    ),
    "patch.v2": PatchObject(
        **_ENVELOPE,
        kind="vcjob",
        namespace="ns",
        name="mpi",
        uid="5f0c",
        patch_type=PatchType.JSON,
        subresource="status",
        patch=b"[]",
    ),
    "delete.v2": DeleteObject(
        **_ENVELOPE,
        kind="pod",
        namespace="ns",
        name="mpi-0",
        uid="5f0c",
        grace_period_s=0,
        propagation="Foreground",
    ),
    "evict.v2": EvictPod(**_ENVELOPE, namespace="ns", name="mpi-0", uid="5f0c", grace_period_s=30),
    "generate.v2": GenerateSecret(
        **_ENVELOPE,
        namespace="ns",
        name="mpi-ssh",
        recipe="ssh-key-pair",
        owner_kind="vcjob",
        owner_name="mpi",
        owner_uid="5f0c",
        parameters={"keyFile": "id_rsa"},
    ),
    "bind.v2": BindGang(
        **_ENVELOPE,
        namespace="ns",
        name="mpi-pg",
        attempt="3",
        part=1,
        parts=2,
        binds=(PodBinding("mpi-0", "5f0c", "node-1"), PodBinding("mpi-1", "5f0d", "node-2")),
    ),
    "fence.v2": Fence(**_ENVELOPE, contract=2),
    "applied.v1": Applied(
        **_ANSWER,
        verb=Verb.CREATE,
        kind="pod",
        namespace="ns",
        name="mpi-0",
        uid="5f0c",
        resource_version="42",
        already=True,
    ),
    "refused.v1": Refused(
        **_ANSWER,
        verb=Verb.DELETE,
        kind="pod",
        namespace="ns",
        name="mpi-0",
        reason=Reason.STALE,
        message="it is another one by now",
    ),
    "gang.bound.v1": GangBound(
        **_ANSWER,
        verb=Verb.BIND,
        kind="pod",
        namespace="ns",
        name="mpi-pg",
        attempt="3",
        part=1,
        parts=2,
        pods=(
            PodBound(name="mpi-0", uid="5f0c", node="node-1", bound=True, already=True),
            PodBound(
                name="mpi-1",
                uid="5f0d",
                node="node-2",
                bound=False,
                reason=Reason.NOT_FOUND,
                message="no such node",
            ),
        ),
    ),
    "fence.answered.v2": FenceAnswered(
        **_ANSWER,
        verb=Verb.FENCE,
        kind="-",
        epoch=Epoch(1700000000000000000, 7),
        versions={"pod": "42", "vcpodgroup": "17"},
        assumed=(AssumedPod("ns", "mpi-0", "5f0c", "node-1"),),
    ),
    "gateway.turn.v1": GatewayTurn(service="scheduler", gateway=Epoch(1700000000000000000, 9)),
    "uncertain.v1": Uncertain(
        **_ANSWER,
        verb=Verb.EVICT,
        kind="pod",
        gateway=Epoch(1700000000000000000, 9),
        namespace="ns",
        name="mpi-0",
        message="the API server did not answer",
    ),
    "history.recorded.v1": HistoryRecorded(
        cause="8c1f3a",
        namespace="ns",
        job="mpi",
        uid="5f0c",
        service="scheduler",
        at=1700000001.5,
        what="pod.bound",
        why="fits",
        detail={"node": "node-1"},
    ),
    "dead.letter.v1": DeadLetter(
        cause="8c1f3a",
        stream="INTENT",
        arrived_on="vc.intent.8.controllers.create.pod",
        sequence=12,
        service="gateway",
        at=1700000001.5,
        reason="not an intent message",
        payload=b"\xc1",
        size=1,
    ),
}
"""What each stored sample means, by its tag."""

RETIRED = (
    "bind.v1",
    "create.v1",
    "delete.v1",
    "evict.v1",
    "fence.answered.v1",
    "fence.v1",
    "generate.v1",
    "patch.v1",
    "watermark.moved.v1",
)
"""Sent by releases before 0.2, and still on the streams when one is upgraded."""

DECODERS: tuple[codec.Decoder[Any], ...] = (
    codec.facts,
    codec.intents,
    codec.outcomes,
    codec.history,
    codec.dead,
)


def tag_of(message: type[Message]) -> str:
    return str(message.__struct_config__.tag)


def decode(data: bytes) -> Message:
    """By whichever family knows the tag; exactly one does."""
    known: list[Message] = []
    for decoder in DECODERS:
        try:
            known.append(decoder.decode(data))
        except UnknownTag:
            continue
    (message,) = known
    return message


def stored(tag: str) -> bytes:
    return (SAMPLES / f"{tag}.msgpack").read_bytes()


def test_every_message_type_has_a_stored_sample_and_no_sample_has_lost_its_type():
    declared = {tag_of(message) for message in DECLARED}

    assert (
        {path.stem for path in SAMPLES.glob("*.msgpack")} - set(RETIRED) == declared == set(STORED)
    )


@pytest.mark.parametrize("tag", STORED)
def test_a_stored_message_means_what_it_meant(tag: str):
    assert decode(stored(tag)) == STORED[tag]


@pytest.mark.parametrize("tag", RETIRED)
def test_a_retired_message_is_unknown_and_not_rubbish(tag: str):
    for decoder in DECODERS:
        with pytest.raises(UnknownTag):
            decoder.decode(stored(tag))


@pytest.mark.parametrize("tag", STORED)
def test_a_field_of_a_newer_version_is_ignored(tag: str):
    fields = msgspec.msgpack.decode(stored(tag))
    newer = msgspec.msgpack.encode({"added_later": {"a": [1, None]}, **fields})

    assert decode(newer) == STORED[tag]


@pytest.mark.parametrize("tag", STORED)
def test_a_field_once_sent_keeps_its_name_and_a_field_added_later_has_a_default(tag: str):
    sent = set(msgspec.msgpack.decode(stored(tag))) - {"type"}
    fields = msgspec.structs.fields(STORED[tag])

    assert sent <= {field.encode_name for field in fields}
    assert {field.encode_name for field in fields if field.required} <= sent


@pytest.mark.parametrize("tag", STORED)
def test_a_newer_version_of_a_message_is_unknown_and_not_rubbish(tag: str):
    fields = msgspec.msgpack.decode(stored(tag))
    newer = msgspec.msgpack.encode({**fields, "type": f"{tag}9"})

    for decoder in DECODERS:
        with pytest.raises(UnknownTag) as unknown:
            decoder.decode(newer)
        assert unknown.value.tag == f"{tag}9"


@pytest.mark.parametrize("tag", STORED)
def test_a_message_without_one_of_its_required_fields_is_rubbish_and_says_what_is_missing(tag: str):
    fields = msgspec.msgpack.decode(stored(tag))
    required = [f.encode_name for f in msgspec.structs.fields(STORED[tag]) if f.required]
    without = {name: value for name, value in fields.items() if name != required[0]}

    with pytest.raises(Undecodable, match=rf"{tag}: .*`{required[0]}`") as problem:
        decode(msgspec.msgpack.encode(without))
    assert not isinstance(problem.value, UnknownTag)


@pytest.mark.parametrize(
    "tag", [tag for tag, message in STORED.items() if hasattr(message, "lives_s")]
)
def test_the_envelope_of_an_intent_can_be_read_whatever_its_type(tag: str):
    fields = msgspec.msgpack.decode(stored(tag))
    envelope = codec.envelope_of(msgspec.msgpack.encode({**fields, "type": "dance.v1"}))

    assert envelope == codec.AnyEnvelope(
        type="dance.v1",
        id="8c1f3a",
        key="vcjob/ns/mpi",
        service="controllers",
        shard="west",
        epoch=Epoch(1700000000000000000, 7),
        lives_s=20.0,
    )


def test_the_id_of_a_wish_is_the_same_in_every_version_and_for_names_and_enumerations():
    """Two versions run beside each other during an upgrade, and must not ask twice."""
    wish = intent_id("controllers", Verb.CREATE, "pod", "ns", "mpi-0", b"{}", None, 3)

    assert wish == intent_id("controllers", "create", "pod", "ns", "mpi-0", b"{}", None, 3)
    assert wish == "4dc96f160594ef7242a4e891e83f0956"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "bc"), ("ab", "c")),
        (("1",), (1,)),
        (("'1'",), (b"'1'",)),
        (("s",), (b"s",)),
        ((None,), ("-",)),
        ((None,), ("None",)),
        (("a",), ("a", "")),
    ],
)
def test_different_wishes_have_different_ids(one: tuple[Any, ...], other: tuple[Any, ...]):
    assert intent_id(*one) != intent_id(*other)


if __name__ == "__main__":
    for tag, message in STORED.items():
        path = SAMPLES / f"{tag}.msgpack"
        if not path.exists():
            path.write_bytes(codec.encode(message))
