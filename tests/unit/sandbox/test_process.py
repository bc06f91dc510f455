"""The command line: one line when ready, a clear word when not, a clean end on SIGTERM."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from tests.unit.sandbox.conftest import DEADLINE_S

from stromboli.sandbox.__main__ import config_of, main, parser
from stromboli.sandbox.errors import ConfigError


async def started(*arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    command = [sys.executable, "-m", "stromboli.sandbox", "api", *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    async with asyncio.timeout(2 * DEADLINE_S):
        return process, (await process.stdout.readline()).decode()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_it_says_when_it_is_ready_and_stops_when_asked(
    tmp_path: Path, how: signal.Signals
) -> None:
    process, line = await started("--data-dir", str(tmp_path))
    assert line.startswith("stromboli-sandbox api ready at https://127.0.0.1:")

    os.kill(process.pid, how)
    async with asyncio.timeout(DEADLINE_S):
        _, errors = await process.communicate()

    assert (process.returncode, errors) == (0, b"")


async def test_a_taken_port_is_a_sentence_not_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process, _ = await started("--data-dir", str(tmp_path), "--listen", address)
        async with asyncio.timeout(DEADLINE_S):
            _, errors = await process.communicate()

    assert process.returncode == 1
    assert b"address already in use" in errors
    assert b"Traceback" not in errors


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:x", ":80"])
def test_an_address_that_is_none_is_named(tmp_path: Path, address: str) -> None:
    arguments = parser().parse_args(["api", "--data-dir", str(tmp_path), "--listen", address])

    with pytest.raises(ConfigError, match="HOST:PORT"):
        config_of(arguments)


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["api", "--help"])

    told = capsys.readouterr().out
    assert left.value.code == 0
    assert "KUBECONFIG=" in told
    assert "kill -9" in told
