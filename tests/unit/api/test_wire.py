"""Objects survive the JSON that real clients and servers write."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stromboli.api.batch import Job, JobPhase, JobSpec, TaskSpec
from stromboli.api.core import ConfigMap, Secret, Withheld
from stromboli.api.errors import ContentsWithheld, ObjectUnreadable
from stromboli.api.kinds import (
    CONFIG_MAP,
    EVENT,
    KINDS,
    NODE,
    POD,
    QUEUE,
    SECRET,
    VC_JOB,
    Kind,
)
from stromboli.api.meta import ObjectMeta, PartialObject
from stromboli.api.projections import encode_projection
from stromboli.api.wire import (
    decode_object,
    encode_object,
    manifest_of,
    read_object,
    read_template,
)

POD_JSON = (Path(__file__).parent / "data" / "pod.json").read_bytes()


def test_a_pod_as_the_api_server_sent_it_is_read():
    pod = decode_object(POD, POD_JSON)

    assert pod.metadata.name == "tensorflow-benchmark-ps-0"
    assert pod.metadata.owner_references[0].controller is True
    assert pod.spec.containers[0].resources.requests == {"cpu": "1", "memory": "2Gi"}
    assert pod.spec.containers[0].env[2].value_from is not None
    assert pod.spec.tolerations[0].toleration_seconds == 300
    assert pod.status.pod_ip == "10.1.2.3"
    last = pod.status.container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.exit_code, last.started_at) == (1, None)


def test_the_nulls_of_a_real_pod_do_not_need_a_second_reading():
    """Such as lastProbeTime: null in every condition; the slow way would halve the gateway."""
    assert b'"lastProbeTime": null' in POD_JSON
    assert b'"finishedAt": null' in POD_JSON

    assert msgspec.json.decode(POD_JSON, type=POD.type) == decode_object(POD, POD_JSON)


def test_the_null_times_of_a_real_event_do_not_need_a_second_reading():
    raw = b"""{"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "source": {},
               "firstTimestamp": null, "lastTimestamp": null, "eventTime": null}"""

    assert msgspec.json.decode(raw, type=EVENT.type) == decode_object(EVENT, raw)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.token)
def test_null_means_absent_in_every_field_of_every_kind(kind: Kind[Any]):
    names = [part.encode_name for part in msgspec.structs.fields(kind.type)]
    metadata = dict.fromkeys(
        [part.encode_name for part in msgspec.structs.fields(ObjectMeta)] + ["managedFields"]
    )

    assert decode_object(kind, msgspec.json.encode(dict.fromkeys(names))) == kind.type()
    assert decode_object(kind, msgspec.json.encode({"metadata": metadata})) == kind.type()


def test_nulls_deep_inside_are_passed_over():
    raw = b"""{"metadata": {"name": "n", "labels": null, "creationTimestamp": null},
               "spec": {"taints": null},
               "status": {"conditions": [{"type": "Ready", "status": "True", "reason": null}]}}"""

    node = decode_object(NODE, raw)

    assert node.metadata == ObjectMeta(name="n")
    assert node.spec.taints == ()
    assert [(part.type, part.reason) for part in node.status.conditions] == [("Ready", "")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.token)
def test_fields_that_we_do_not_know_are_skipped(kind: Kind[Any]):
    raw = b'{"metadata": {"name": "x", "new": [1]}, "spec": {"new": {}}, "status": {"new": 1}}'

    assert decode_object(kind, raw).metadata == ObjectMeta(name="x")


def test_values_that_a_crd_would_refuse_are_still_readable():
    """A bad object must not stop us from seeing it, and from saying what is wrong with it."""
    raw = b"""{"spec": {"queue": "Not A Queue!", "minAvailable": -7, "maxRetry": 99999999999,
               "tasks": [{"name": "UPPER", "replicas": -1, "topologyPolicy": "wild",
                          "policies": [{"event": "NoSuchEvent", "events": ["Nor", "This"]}]}]},
               "status": {"state": {"phase": "Dreaming"}, "running": -1}}"""

    job = decode_object(VC_JOB, raw)

    assert job.spec.min_available == -7
    assert job.spec.tasks[0].policies[0].events == ("Nor", "This")
    assert job.status.state.phase == "Dreaming"
    assert job.status.state.phase not in set(JobPhase)


def test_custom_resources_may_write_quantities_as_numbers():
    queue = decode_object(
        QUEUE, b'{"spec": {"capability": {"cpu": 4, "memory": "1Gi", "x/y": 0.5}}}'
    )

    assert queue.spec.capability == {"cpu": 4, "memory": "1Gi", "x/y": 0.5}


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"null", "Expected `object`"),
        (b'"\xff"', "utf-8"),
        (b'{"spec": 1, "x": "\xff"}', "utf-8"),
        (b'{"spec": 1, ', "truncated"),
        (b'{"spec": {"containers": "none"}}', r"\$\.spec\.containers"),
        (b'{"spec": {"containers": [null]}}', r"\$\.spec\.containers"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_where(raw: bytes, fault: str):
    with pytest.raises(ObjectUnreadable, match=f"cannot read this as a Pod: .*({fault})"):
        decode_object(POD, raw)


def nested(depth: int, other: bytes) -> bytes:
    deep = b"[" * depth + b"]" * depth
    return b'{"spec": {"tasks": [{"template": {"x": ' + deep + b"}}]" + other + b"}}"


@pytest.mark.parametrize("other", [b"", b', "queue": null'], ids=["fast", "with nulls"])
def test_malicious_nesting_is_an_error_and_no_crash(other: bytes):
    assert encode_projection(decode_object(VC_JOB, nested(100, other)))
    with pytest.raises(ObjectUnreadable, match="recursion"):
        decode_object(VC_JOB, nested(100_000, other))


def test_an_object_is_written_with_its_kind_and_reads_back_equal():
    job = Job(
        metadata=ObjectMeta(name="train", namespace="ns", labels={"b": "2", "a": "1"}),
        spec=JobSpec(min_available=2, tasks=(TaskSpec(name="w", replicas=2),)),
    )

    raw = encode_object(job)

    assert msgspec.json.decode(raw, type=PartialObject).kind == "Job"
    assert manifest_of(job)["apiVersion"] == "batch.volcano.sh/v1alpha1"
    assert decode_object(VC_JOB, raw) == job
    assert raw.index(b'"a":"1"') < raw.index(b'"b":"2"')


def test_an_object_that_was_parsed_already_can_be_read():
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "metadata": None}

    assert read_object(CONFIG_MAP, manifest) == ConfigMap(data={"a": "b"})


SECRET_JSON = b"""{"metadata": {"name": "s"}, "type": "Opaque",
                   "data": {"password": "aHVudGVyMg==", "empty": "", "nothing": null}}"""


def test_a_secret_is_read_without_its_contents():
    secret = decode_object(SECRET, SECRET_JSON)

    assert list(secret.data) == ["password", "empty", "nothing"]
    assert set(secret.data.values()) == {Withheld.WITHHELD, None}
    assert "aHVudGVyMg" not in repr(secret)


def test_a_secret_that_cannot_be_read_does_not_show_its_contents_either():
    with pytest.raises(ObjectUnreadable) as caught:
        decode_object(SECRET, SECRET_JSON.replace(b'""', b"7"))

    assert "aHVudGVyMg" not in str(caught.value)


def test_a_secret_cannot_be_written_back_without_its_contents():
    with pytest.raises(ContentsWithheld, match="Secret 's' was read without its contents"):
        encode_object(Secret(metadata=ObjectMeta(name="s")))


def test_a_template_keeps_the_fields_that_nobody_here_knows():
    raw = b"""{"spec": {"tasks": [{"name": "w", "template": {
        "metadata": {"creationTimestamp": null, "labels": {"a": "b"}},
        "spec": {"futureField": {"deep": [1, null]}, "containers": [
            {"name": "c", "resources": {"requests": {"cpu": 1, "memory": 0.5}}}]}}}]}}"""

    template = decode_object(VC_JOB, raw).spec.tasks[0].template
    view = read_template(template)

    assert template["spec"]["futureField"] == {"deep": [1, None]}
    assert view.metadata == ObjectMeta(labels={"a": "b"})
    assert view.spec.containers[0].resources.requests == {"cpu": 1, "memory": 0.5}


def test_a_template_that_is_no_template_is_refused_where_it_is_read():
    with pytest.raises(ObjectUnreadable, match=r"as a pod template: .*containers"):
        read_template({"spec": {"containers": 3}})
