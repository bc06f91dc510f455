"""Secrets are starred by type, by name and by shape."""

import msgspec
import pytest

from stromboli.runtime.redaction import STARS, Secret, is_telling_name, redact, redact_text


def test_a_secret_shows_itself_only_when_asked():
    secret = Secret("hunter2")

    assert "hunter2" not in f"{secret} {secret!r}"
    assert secret.reveal() == "hunter2"


def test_secrets_are_equal_by_value():
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize(
    "name",
    ["password", "nats_password", "authToken", "ssh-key", "private_key", "privateKey", "API_KEY"],
)
def test_a_telling_name_is_known_in_any_spelling(name: str):
    assert is_telling_name(name)


@pytest.mark.parametrize("name", ["key", "tokenizer", "public_key", "job", "author", "seeded"])
def test_an_ordinary_name_is_left_alone(name: str):
    assert not is_telling_name(name)


def test_values_are_starred_at_any_depth():
    event = {
        "user": "ann",
        "auth": [{"password": "a"}, {"token": "b"}],
        "plugin": {"ssh": ["--private-key=c"], "svc": []},
        "secret": Secret("d"),
        "plain": Secret("e"),
    }

    assert redact(event) == {
        "user": "ann",
        "auth": [{"password": STARS}, {"token": STARS}],
        "plugin": {"ssh": STARS, "svc": []},
        "secret": STARS,
        "plain": STARS,
    }


class Account(msgspec.Struct):
    user: str
    password: str


def test_the_fields_of_a_struct_are_starred_by_their_names():
    assert redact({"account": Account("ann", "hunter2")}) == {
        "account": {"user": "ann", "password": STARS}
    }


def test_an_exception_is_its_message_without_secrets():
    assert redact(OSError("no nats://a:b@h")) == f"no nats://{STARS}@h"
    assert redact(TimeoutError()) == "TimeoutError"


def test_counts_under_a_telling_name_stay_readable():
    assert redact({"tokens": 3, "token": None, "password": False}) == {
        "tokens": 3,
        "token": None,
        "password": False,
    }


def test_the_user_of_an_url_is_starred_and_the_rest_stays():
    text = "connect nats://gw:hunter2@10.0.0.1:4222 failed"

    assert redact_text(text) == f"connect nats://{STARS}@10.0.0.1:4222 failed"


def test_a_private_key_inside_a_text_is_starred():
    text = "x -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- y"

    assert redact_text(text) == f"x {STARS} y"


def test_a_structure_that_contains_itself_ends():
    endless: dict[str, object] = {}
    endless["self"] = endless

    assert "…" in repr(redact(endless))
