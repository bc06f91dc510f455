"""The protobuf that kubectl's imperative commands send, and the rest of it refused."""

import pytest
from tests.unit.sandbox.conftest import CONFIG_MAPS, PODS, Client, Reply

PROTOBUF = "application/vnd.kubernetes.protobuf"


def field(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def envelope(kind: str, message: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, "v1") + field(2, kind)) + field(2, message)


async def post(client: Client, path: str, body: bytes) -> Reply:
    return await client.call("POST", path, body, content_type=PROTOBUF)


async def test_a_config_map_is_created(client: Client) -> None:
    empty_timestamp = field(8, b"")
    meta = field(1, "a") + empty_timestamp + field(11, field(1, "colour") + field(2, "red"))
    data = field(2, field(1, "key") + field(2, "value"))
    binary = field(3, field(1, "raw") + field(2, b"\x00\x01"))
    reply = await post(client, CONFIG_MAPS, envelope("ConfigMap", field(1, meta) + data + binary))

    assert reply.code == 201, reply.text
    assert reply.meta["labels"] == {"colour": "red"}
    assert reply.body["data"] == {"key": "value"}
    assert reply.body["binaryData"] == {"raw": "AAE="}


async def test_a_namespace_is_created(client: Client) -> None:
    body = envelope("Namespace", field(1, field(1, "made")) + field(2, b"") + field(3, b""))

    assert (await post(client, "/api/v1/namespaces", body)).meta["name"] == "made"


@pytest.mark.parametrize(
    "body",
    [
        envelope("Pod", field(1, field(1, "a"))),
        envelope("ConfigMap", field(1, field(1, "a") + field(13, field(1, "an owner")))),
    ],
    ids=["a kind", "a field"],
)
async def test_what_is_not_known_by_number_is_an_unsupported_format(
    client: Client, body: bytes
) -> None:
    """Dropping a field that somebody set would be worse than a refusal."""
    path = PODS if b"Pod" in body else CONFIG_MAPS

    assert (await post(client, path, body)).code == 415


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"k8s\x00\x0a\x7f",
        b"k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"k8s\x00\x0f",
        envelope("ConfigMap", b"\x08\x01"),
        envelope("ConfigMap", field(1, field(1, b"\xff"))),
    ],
)
async def test_garbage_is_a_bad_request(client: Client, body: bytes) -> None:
    assert (await post(client, CONFIG_MAPS, body or b"not protobuf")).code == 400
