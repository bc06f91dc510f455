"""What jobs are made from holds the same secrets as jobs, and shows as little on the bus."""

from typing import Any

import msgspec
import pytest

from stromboli.api.kinds import JOB_FLOW, JOB_TEMPLATE, VC_CRON_JOB, Kind
from stromboli.api.projections import encode_projection, project

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"
SPEC = {"plugins": {"ssh": ["--ssh-private-key", PEM, "--ssh-public-key=mine"], "svc": []}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (JOB_TEMPLATE, SPEC),
        (VC_CRON_JOB, {"jobTemplate": {"spec": SPEC}}),
        (JOB_FLOW, {"flows": [{"name": "a", "patch": {"jobSpec": SPEC}}]}),
        (JOB_FLOW, {"flows": [{"name": "a", "patch": {"jobSpec": {"plugins": PEM}}}]}),
        (JOB_FLOW, {"flows": [{"name": "a", "patch": {"jobSpec": {"plugins": {"x": [[PEM]]}}}}]}),
    ],
    ids=["a template", "a schedule", "a flow", "a flow that makes no sense", "another"],
)
def test_a_private_key_does_not_travel(kind: Kind[Any], spec: dict[str, Any]):
    raw = msgspec.json.encode({"metadata": {"name": "x"}, "spec": spec})

    packed = encode_projection(project(kind, raw))

    assert b"MIIE" not in packed
    assert b"[redacted]" in packed


def test_what_is_no_secret_travels():
    raw = msgspec.json.encode({"metadata": {"name": "x"}, "spec": SPEC})

    plugins = project(JOB_TEMPLATE, raw).spec.plugins

    assert plugins == {
        "ssh": ("--ssh-private-key", "[redacted]", "--ssh-public-key=mine"),
        "svc": (),
    }
