"""What the process says about settings that make no sense, before it connects to anything."""

from pathlib import Path

import pytest

from stromboli.testkit.services import ServiceProcess


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jobs", "no controller is called 'jobs': expected '*' or some of job-controller"),
        ("*,-everything", "no controller is called 'everything'"),
        ("-gc-controller", "leaves no controller to run"),
    ],
)
async def test_controllers_that_do_not_exist_are_refused(tmp_path: Path, text: str, said: str):
    process = ServiceProcess(
        "stromboli.controllers", directory=tmp_path, args=[f"--controllers={text}"]
    )

    assert await process.wait(30) != 0
    assert said in process.log_text()
