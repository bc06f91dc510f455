"""An unknown queue costs one request, an unknown answer is never taken for a yes or a no."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stromboli.admission.errors import QueueOutOfReach
from stromboli.admission.lookup import QueueLookup
from stromboli.testkit.clock import ManualClock
from stromboli.testkit.scripted_server import Answerer, serving, whole

QUEUE = b'{"metadata":{"name":"gold"},"spec":{"weight":3}}'
MISSING = b'{"kind":"Status","code":404,"reason":"NotFound","details":{"name":"gold"}}'


class Counted:
    """A server that always says the same, and how often it was asked."""

    def __init__(self, answer: bytes, code: int = 200) -> None:
        self.asked: list[str] = []
        self._answer = whole(answer, code=code)

    async def __call__(
        self, head: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.asked.append(head.split()[1])
        writer.write(self._answer)


@asynccontextmanager
async def looking(
    folder: Path, answer: Answerer, clock: ManualClock | None = None
) -> AsyncGenerator[QueueLookup]:
    async with serving(folder, answer) as kube:
        lookup = QueueLookup(kube, clock or ManualClock(), timeout_s=0.2, missing_kept_s=0.5)
        yield lookup
        await lookup.close()


async def test_a_queue_that_exists_is_found_and_not_asked_for_again_at_once(tmp_path: Path):
    server = Counted(QUEUE)
    async with looking(tmp_path, server) as lookup:
        for _ in range(3):
            found = await lookup.find(["gold"])
            assert found["gold"].spec.weight == 3

    assert server.asked == ["/apis/scheduling.volcano.sh/v1beta1/queues/gold"]


async def test_a_thousand_jobs_for_a_queue_that_is_missing_are_one_request(tmp_path: Path):
    server, clock = Counted(MISSING, 404), ManualClock()
    async with looking(tmp_path, server, clock) as lookup:
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(lookup.find(["gold"])) for _ in range(1000)]
        assert [task.result() for task in asking] == [{}] * 1000
        assert len(server.asked) == 1

        await clock.advance(0.6)
        assert await lookup.find(["gold"]) == {}
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Counted(b"no", 500),
        Counted(b'{"kind":"Status","code":403,"reason":"Forbidden"}', 403),
        Counted(b"this is no JSON"),
        Counted(b'{"kind":"Status","code":404,"reason":"NotFound"}', 404),
    ],
    ids=["trouble", "no right", "rubbish", "no such kind"],
)
async def test_a_server_that_can_not_say_is_neither_a_yes_nor_a_no(tmp_path: Path, answer: Counted):
    async with looking(tmp_path, answer) as lookup:
        with pytest.raises(QueueOutOfReach, match="try again"):
            await lookup.find(["gold"])


async def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path):
    async def silent(_: str, reader: asyncio.StreamReader, _w: asyncio.StreamWriter) -> None:
        await reader.read()

    async with looking(tmp_path, silent) as lookup, asyncio.timeout(5):
        with pytest.raises(QueueOutOfReach):
            await lookup.find(["gold"])


async def test_a_name_that_is_a_path_is_no_queue_and_no_request(tmp_path: Path):
    server = Counted(QUEUE)
    async with looking(tmp_path, server) as lookup:
        assert await lookup.find(["../pods", "a/b", ".."]) == {}

    assert server.asked == []
