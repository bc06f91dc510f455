"""An armed crash point kills the process there and then."""

import signal
from pathlib import Path

import pytest

from stromboli.testkit.services import ServiceProcess

pytestmark = pytest.mark.faults

SAMPLE = Path(__file__).parents[2] / "integration" / "runtime"


@pytest.mark.parametrize(("given", "ticks"), [("sample.tick.done", 1), ("sample.tick.done:3", 3)])
async def test_the_process_is_killed_at_the_named_point(tmp_path: Path, given: str, ticks: int):
    async with ServiceProcess(
        "sample_service",
        directory=tmp_path,
        args=["--log-level=debug"],
        env={"PYTHONPATH": str(SAMPLE), "STROMBOLI_CRASH_AT": given},
    ) as service:
        assert await service.wait() == -signal.SIGKILL

        assert len(service.events("sample.ticked")) == ticks
        assert service.log_text().endswith("crash point reached: sample.tick.done\n")
        assert service.events("process.ended") == []
