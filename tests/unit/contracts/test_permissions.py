import pytest

from stromboli.api import kinds
from stromboli.contracts.intents import Verb
from stromboli.contracts.nats_config import users_block
from stromboli.contracts.permissions import BUS, ROWS, SERVICES, row_for


def test_every_row_names_a_kind_that_exists():
    for row in ROWS:
        assert kinds.by_token(row.kind).token == row.kind


def test_no_row_stands_twice():
    keys = [(r.service, r.verb, r.kind, r.subresource) for r in ROWS]

    assert len(keys) == len(set(keys))


def test_only_the_scheduler_binds_and_only_the_controllers_create_pods():
    assert {r.service for r in ROWS if r.verb is Verb.BIND} == {"scheduler"}
    assert {r.service for r in ROWS if r.verb is Verb.CREATE and r.kind == "pod"} == {"controllers"}


def test_no_two_services_own_the_same_status_field():
    owned = [(r.kind, f) for r in ROWS for f in r.fields if f.startswith("status")]

    assert len(owned) == len(set(owned))


def test_what_no_row_allows_has_no_row():
    assert row_for("scheduler", Verb.CREATE, "pod") is None
    assert row_for("nobody", Verb.BIND, "pod") is None


def test_only_the_gateway_may_write_facts_and_outcomes():
    writers = {
        name for name, rights in BUS.items() for s in rights.publish if s.startswith("vc.state")
    }

    assert writers == {"gateway"}


def test_no_service_may_listen_to_anothers_inbox():
    for name in SERVICES:
        inboxes = [s for s in BUS[name].subscribe if s.startswith("_INBOX")]

        assert inboxes == [f"_INBOX.{name}.>"]


def test_a_user_for_an_unknown_service_is_refused_by_name():
    with pytest.raises(ValueError, match="stranger"):
        users_block({"stranger": "x"})
