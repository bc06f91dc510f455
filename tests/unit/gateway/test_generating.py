"""Key pairs that jobs bring along: used as they are, or refused in plain words."""

import base64

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from stromboli.contracts.intents import GenerateSecret
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.generating import secret_manifest
from stromboli.gateway.refusals import Refusal

PKCS8 = serialization.PrivateFormat.PKCS8
KEY = ed25519.Ed25519PrivateKey.generate()
PUBLIC = (
    KEY.public_key()
    .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    .decode()
)


def private(
    encoding: serialization.PrivateFormat = serialization.PrivateFormat.OpenSSH,
    password: bytes | None = None,
) -> str:
    locked = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    return KEY.private_bytes(serialization.Encoding.PEM, encoding, locked).decode()


async def generated(*arguments: str) -> bytes | Refusal:
    intent = GenerateSecret(
        id="i",
        key="vcjob/default/j",
        service="controllers",
        namespace="default",
        name="j-ssh",
        recipe="ssh-key-pair",
        owner_kind="vcjob",
        owner_name="j",
        owner_uid="u",
    )
    owner = {"metadata": {"uid": "u"}, "spec": {"plugins": {"ssh": list(arguments)}}}
    return await secret_manifest(intent, msgspec.json.encode(owner))


@pytest.mark.parametrize("given", [private(), private(PKCS8)], ids=["openssh", "pkcs8"])
async def test_a_pair_that_can_be_read_is_taken_as_it_is(given: str):
    made = await generated(f"--ssh-private-key={given}", "--ssh-public-key", PUBLIC)

    assert isinstance(made, bytes)
    data = msgspec.json.decode(made)["data"]
    assert base64.b64decode(data["id_rsa"]).decode() == given
    assert base64.b64decode(data["authorized_keys"]).decode() == PUBLIC


@pytest.mark.parametrize(
    ("given", "public", "words"),
    [
        ("-----BEGIN RSA PRIVATE KEY----- oops", PUBLIC, "the private key can't be read"),
        ("mine", PUBLIC, "the private key can't be read"),
        (private(), "yours", "the public key can't be read"),
        (private(PKCS8, b"open sesame"), PUBLIC, "the private key is encrypted"),
    ],
    ids=["cut short", "no key", "no public key", "encrypted"],
)
async def test_a_pair_that_nobody_can_use_is_refused_without_repeating_it(
    given: str, public: str, words: str
):
    refusal = await generated(f"--ssh-private-key={given}", f"--ssh-public-key={public}")

    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.INVALID
    assert words in refusal.message
    assert given not in refusal.message
    assert public not in refusal.message


async def test_half_a_pair_counts_as_none():
    made = await generated(f"--ssh-private-key={private()}")

    assert isinstance(made, bytes)
    data = msgspec.json.decode(made)["data"]
    assert b"BEGIN RSA PRIVATE KEY" in base64.b64decode(data["id_rsa"])
