"""A leak is an error of the test that leaked, found by a real run of pytest."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
LEAKY = """
    import asyncio
    import socket

    import pytest

    from stromboli.testkit import leaks

    leaks._LAST_STEPS_S = 0.1
    kept = []

    @pytest.fixture(scope="module")
    def server():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            yield listening

    async def test_forgets_a_connection(server):
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, *server.getsockname())
        transport._extra["itself"] = transport  # only collecting the garbage finds it

    def test_keeps_a_socket():
        kept.append(socket.socket())

    async def test_forgets_a_task():
        asyncio.create_task(asyncio.Event().wait())

    async def test_leaves_nothing(server):
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()

    def test_is_innocent():
        pass
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("leaky")
    (folder / "test_leaky.py").write_text(dedent(LEAKY))
    (folder / "pytest.ini").write_text(SETTINGS)
    arguments = [
        "-p",
        "stromboli.testkit.leaks",
        "-p",
        "no:cacheprovider",
        "-rE",
        "-v",
        str(folder),
    ]
    ran = subprocess.run(  # noqa: PLW1510
        [sys.executable, "-m", "pytest", *arguments], capture_output=True, text=True, cwd=folder
    )
    return ran.stdout


@pytest.mark.parametrize(
    ("test", "left"),
    [
        ("test_forgets_a_connection", "unclosed transport"),
        ("test_keeps_a_socket", "<socket.socket fd="),
        ("test_forgets_a_task", "left running:\n<Task pending"),
    ],
)
def test_the_test_that_leaked_is_told_what_it_left(report: str, test: str, left: str):
    begin = report.index(f"ERROR at teardown of {test} ")
    message = report[begin:].partition("\n____")[0]

    assert left in message, report
    assert f"::{test} PASSED" in report
    assert f"::{test} ERROR" in report


@pytest.mark.parametrize("test", ["test_leaves_nothing", "test_is_innocent"])
def test_a_test_that_leaves_nothing_is_not_blamed(report: str, test: str):
    assert f"::{test} PASSED" in report
    assert f"::{test} ERROR" not in report
