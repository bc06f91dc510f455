"""What travels on the bus is what we decide by: no noise, and never a secret."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stromboli.api.batch import Job, JobSpec
from stromboli.api.core import (
    Container,
    ContainerPort,
    EnvVar,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from stromboli.api.errors import ObjectUnreadable
from stromboli.api.kinds import KINDS, NODE, POD, SECRET, VC_JOB, Kind
from stromboli.api.meta import ObjectMeta
from stromboli.api.projections import (
    decode_end,
    decode_projection,
    encode_end,
    encode_projection,
    project,
    projection_of,
)
from stromboli.api.wellknown import LAST_APPLIED_CONFIGURATION
from stromboli.api.wire import decode_object
from stromboli.contracts.facts import NOTHING_NEW

POD_JSON = (Path(__file__).parent / "data" / "pod.json").read_bytes()

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"


def test_a_projection_reads_back_equal_from_its_bytes():
    pod = project(POD, POD_JSON)

    packed = encode_projection(pod)

    assert decode_projection(POD, packed) == pod
    assert decode_projection(POD, msgspec.Raw(packed)) == pod
    assert len(packed) < len(POD_JSON) / 2


def test_what_nobody_decides_by_does_not_change_a_projection():
    plain: dict[str, Any] = msgspec.json.decode(POD_JSON)
    changed: dict[str, Any] = msgspec.json.decode(POD_JSON)
    changed["metadata"]["resourceVersion"] = "999999"
    changed["metadata"]["managedFields"] = []
    changed["metadata"]["annotations"][LAST_APPLIED_CONFIGURATION] = "{}"
    changed["status"]["conditions"][0]["lastProbeTime"] = "2026-11-16T02:00:00Z"
    del changed["kind"], changed["apiVersion"]

    assert encode_projection(project(POD, msgspec.json.encode(plain))) == encode_projection(
        project(POD, msgspec.json.encode(changed))
    )


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**300])
def test_an_object_with_an_integer_of_more_than_64_bits_is_unreadable(number: int):
    """JSON has them, the bus has not: such an object is one that nobody can use."""
    for spec in ({"minAvailable": number}, {"tasks": [{"template": {"x": [number]}}]}):
        job = project(VC_JOB, json.dumps({"metadata": {"name": "j"}, "spec": spec}).encode())
        with pytest.raises(ObjectUnreadable, match="more than 64 bits"):
            encode_projection(job)


def test_a_heartbeat_does_not_change_the_projection_of_a_node():
    def node(heartbeat: str) -> bytes:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
        return msgspec.json.encode(
            {"metadata": {"name": "n", "resourceVersion": heartbeat[-3:]},
             "status": {"conditions": [condition]}}
        )  # fmt: skip

    early, late = node("2026-11-16T02:00:00Z"), node("2026-11-16T02:05:09Z")

    assert encode_projection(project(NODE, early)) == encode_projection(project(NODE, late))


def test_what_we_decide_by_does_change_a_projection():
    changed = POD_JSON.replace(b'"phase": "Running"', b'"phase": "Failed"')
    assert changed != POD_JSON

    assert encode_projection(project(POD, changed)) != encode_projection(project(POD, POD_JSON))


def test_the_resource_version_stays_with_the_object_and_leaves_the_projection():
    pod = decode_object(POD, POD_JSON)

    assert pod.metadata.resource_version
    assert projection_of(pod).metadata.resource_version == ""
    assert projection_of(pod).metadata.generation == pod.metadata.generation


def test_projecting_twice_changes_nothing():
    once = project(POD, POD_JSON)

    assert projection_of(once) is once


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ((f"--ssh-private-key={PEM}",), ("--ssh-private-key=[redacted]",)),
        (("-ssh-private-key=abc",), ("-ssh-private-key=[redacted]",)),
        (("--ssh-private-key", "abc", "x"), ("--ssh-private-key", "[redacted]", "x")),
        (("--ssh-private-key", "--ssh-private-key=abc"),
         ("--ssh-private-key", "--ssh-private-key=[redacted]")),
        (("--SSH-Private-Key = abc",), ("--SSH-Private-Key=[redacted]",)),
        ((PEM,), ("[redacted]",)),
        (("--ssh-public-key=abc", "--ssh-port=22", "--ssh-key-file-path=/home"),
         ("--ssh-public-key=abc", "--ssh-port=22", "--ssh-key-file-path=/home")),
        ((), ()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("plugin", ["ssh", "svc"])
def test_private_keys_in_plugin_arguments_are_redacted(
    plugin: str, arguments: tuple[str, ...], shown: tuple[str, ...]
):
    job = Job(spec=JobSpec(plugins={plugin: arguments}))

    assert projection_of(job).spec.plugins == {plugin: shown}
    assert projection_of(projection_of(job)) == projection_of(job)


def test_a_job_that_was_not_projected_does_not_slip_onto_the_bus_with_its_key():
    job = Job(spec=JobSpec(plugins={"ssh": (f"--ssh-private-key={PEM}",)}))

    assert b"PRIVATE" not in encode_projection(job)


def test_a_key_does_not_hide_in_the_last_applied_configuration():
    raw = msgspec.json.encode(
        {
            "metadata": {"annotations": {LAST_APPLIED_CONFIGURATION: PEM, "kept": "yes"}},
            "spec": {"plugins": {"ssh": ["--ssh-private-key", PEM]}},
        }
    )

    packed = encode_projection(project(VC_JOB, raw))

    assert b"PRIVATE" not in packed
    assert decode_projection(VC_JOB, packed).metadata == ObjectMeta(annotations={"kept": "yes"})


def test_a_secret_travels_as_its_key_names():
    raw = b'{"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}}'

    packed = encode_projection(project(SECRET, raw))

    assert b"password" in packed
    assert b"aHVudGVyMg" not in packed


labels = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5)


@given(labels, labels, st.permutations(range(5)))
def test_the_order_in_which_maps_were_written_does_not_matter(
    mine: dict[str, str], template: dict[str, str], order: list[int]
):
    def shuffled(mapping: dict[str, str]) -> dict[str, str]:
        items = sorted(mapping.items())
        return dict(items[index] for index in order if index < len(items))

    def packed(mine: dict[str, str], template: dict[str, str]) -> bytes:
        manifest = {
            "metadata": {"labels": mine},
            "spec": {"tasks": [{"template": {"metadata": {"labels": template}}}]},
        }
        return encode_projection(project(VC_JOB, msgspec.json.encode(manifest)))

    assert packed(mine, template) == packed(shuffled(mine), shuffled(template))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.token)
def test_absent_empty_and_null_are_the_same_bytes(kind: Kind[Any]):
    empty = {"metadata": {"labels": {}, "finalizers": [], "name": "", "generation": 0}}
    null = {"metadata": {"labels": None, "finalizers": None, "creationTimestamp": None}}
    parts = {"spec": {}, "status": {}}

    encoded = {
        encode_projection(project(kind, msgspec.json.encode(manifest)))
        for manifest in ({}, empty, null, empty | parts, {"metadata": None})
    }

    assert encoded == {encode_projection(kind.type())}


@pytest.mark.parametrize("packed", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa8metadata\x01"])
def test_bytes_that_are_no_projection_are_refused(packed: bytes):
    with pytest.raises(ObjectUnreadable, match="the projection of a Pod"):
        decode_projection(POD, packed)


def test_what_a_pods_containers_run_does_not_travel():
    container = Container(
        name="main",
        image="registry/tool:1",
        command=("sh", "-c"),
        args=("curl -H $TOKEN",),
        env=(EnvVar(name="TOKEN", value="hunter2"),),
        resources=ResourceRequirements(requests={"cpu": "1"}),
        ports=(ContainerPort(host_port=80),),
    )
    pod = Pod(spec=PodSpec(containers=(container,), init_containers=(container,)))

    packed = encode_projection(pod)
    travelled = decode_projection(POD, packed).spec

    assert b"hunter2" not in packed
    assert b"curl" not in packed
    kept = Container(
        name="main",
        image="registry/tool:1",
        resources=ResourceRequirements(requests={"cpu": "1"}),
        ports=(ContainerPort(host_port=80),),
    )
    assert travelled.containers == travelled.init_containers == (kept,)


def test_the_end_of_a_pod_tells_how_it_ended_and_nothing_that_was_known():
    known = Pod(metadata=ObjectMeta(name="a", uid="u"), spec=PodSpec(node_name="n1"))
    ended = replace(known, spec=PodSpec(), status=PodStatus(phase="Failed", message="exit 3"))

    end = encode_end(ended)

    assert msgspec.msgpack.decode(end).keys() == {"metadata", "status"}
    assert decode_end(POD, known, end) == replace(known, status=ended.status)


@pytest.mark.parametrize("nothing", [b"\x80", encode_projection(Pod())])
def test_the_end_of_a_pod_that_says_nothing_leaves_it_as_it_was_known(nothing: bytes):
    known = Pod(metadata=ObjectMeta(name="a", uid="u"), status=PodStatus(phase="Running"))

    assert decode_end(POD, known, nothing) is known


def test_the_end_of_anything_else_adds_nothing():
    known = Node(metadata=ObjectMeta(name="n", uid="u"))

    end = encode_end(known)

    assert msgspec.Raw(end) == NOTHING_NEW
    assert decode_end(NODE, known, end) is known
