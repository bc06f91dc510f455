"""One line per message: what is in it, and that nothing can spoil the line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api.batch import Job
from stromboli.api.meta import ObjectMeta
from stromboli.api.projections import encode_projection
from stromboli.contracts.codec import encode
from stromboli.contracts.facts import ObjectSeen
from stromboli.contracts.intents import CreateObject
from stromboli.runtime.bus.reader import LogPosition
from stromboli.vcctl.arguments import parse
from stromboli.vcctl.bus_tail import _Lines, line_of, tail
from stromboli.vcctl.errors import UnusableFile

AT = datetime(2026, 11, 16, 3, 0, 0, 123456, tzinfo=UTC)


def line(subject: str, payload: bytes) -> dict[str, Any]:
    text = line_of(subject, payload, AT)
    assert "\n" not in text
    return json.loads(text)


def test_a_fact_is_shown_with_its_projection_decoded():
    fact = ObjectSeen(
        kind="vcjob",
        namespace="n",
        name="mpi",
        uid="u",
        resource_version="7",
        projection=msgspec.Raw(encode_projection(Job(metadata=ObjectMeta(name="mpi")))),
    )
    shown = line(fact.subject(), encode(fact))

    assert shown["time"] == "2026-11-16T03:00:00.123+00:00"
    assert shown["subject"] == "vc.state.vcjob.n.mpi"
    assert shown["type"] == "object.seen.v1"
    assert shown["fields"]["uid"] == "u"
    assert shown["fields"]["projection"]["metadata"]["name"] == "mpi"


def test_an_intents_manifest_is_shown_as_the_json_that_it_is():
    manifest = {"kind": "Pod", "metadata": {"name": "line\nbreak"}}
    intent = CreateObject(
        id="i", key="k", service="controllers", kind="pod", name="p",
        manifest=json.dumps(manifest).encode(),
    )  # fmt: skip

    assert line(intent.subject(), encode(intent))["fields"]["manifest"] == manifest


def test_a_message_of_a_newer_version_is_shown_too():
    payload = msgspec.msgpack.encode({"type": "object.moved.v9", "raw": b"\xff\x00"})

    shown = line("vc.state.x", payload)
    assert (shown["type"], shown["fields"]) == ("object.moved.v9", {"raw": "/wA="})


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x93\x01\x02\x03", b"{}", b"\x81\xa1a\x01"])
def test_rubbish_is_shown_as_what_it_is(payload: bytes):
    shown = line("vc.intent.rubbish", payload)

    assert shown["type"] == "undecodable"
    assert shown["fields"]["problem"]


def test_a_tail_begins_now_and_goes_on_where_it_was():
    lines = _Lines(lambda _: None, from_the_beginning=False)
    assert lines.attach(LogPosition("first", 40, 0.0)) == 41
    lines.last = 45  # as after five messages
    assert lines.attach(LogPosition("first", 60, 1.0)) == 46

    assert lines.attach(LogPosition("made anew", 3, 1.0)) == 1


def test_a_replay_begins_at_the_beginning():
    lines = _Lines(lambda _: None, from_the_beginning=True)

    assert lines.attach(LogPosition("first", 40, 0.0)) == 1


async def test_a_password_file_that_is_not_there_is_named(tmp_path: Path):
    options = parse(["bus", "tail", "--password-file", str(tmp_path / "nowhere")])

    with pytest.raises(UnusableFile, match="nowhere"):
        await tail(options, lambda _: None)
