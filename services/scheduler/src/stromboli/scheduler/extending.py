"""Ask other servers over HTTP, on behalf of plugins that decide in a thread of their own.

Requests run on the event loop, several at a time; the thread waits for all of them. An answer
counts if its status is 200, it is not too long and it comes in time; and a cycle has a time in
which it may ask at all.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Final, Self

import aiohttp

from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter
from stromboli.scheduler.bounded import read_bounded
from stromboli.scheduling.remote import NoAnswer, Question

__all__ = ["HttpRemote"]

log = get_logger(__name__)

_asked = counter("stromboli.scheduler.extender.asked", "Questions put to an extender")
_unanswered = counter(
    "stromboli.scheduler.extender.unanswered", "Questions that an extender gave no usable answer to"
)

_MOST_BYTES: Final = 10 * 2**20
_AT_ONCE: Final = 16
_OUT_OF_TIME: Final = NoAnswer("the cycle has used up its time for questions")
_HEADERS: Final = {"Content-Type": "application/json", "Accept-Encoding": "identity"}


class HttpRemote:
    """The way out of a scheduler: opened on the event loop, used from another thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._until = float("inf")

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=False, headers=_HEADERS)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._loop = None
        if self._session is not None:
            await self._session.close()

    def begin(self, budget_s: float) -> None:
        self._until = time.monotonic() + budget_s

    def ask(self, questions: Sequence[Question], *, each_s: float) -> list[bytes | NoAnswer]:
        loop, session = self._loop, self._session
        if loop is None or session is None or _is_running_on(loop):
            # Waiting on a loop for what runs there would be for ever.
            return [NoAnswer("there is no connection now")] * len(questions)
        if time.monotonic() >= self._until:
            return [_OUT_OF_TIME] * len(questions)
        asking = asyncio.run_coroutine_threadsafe(self._ask_all(session, questions, each_s), loop)
        try:
            answers = asking.result()
        except CancelledError:
            return [NoAnswer("the scheduler is about to end")] * len(questions)
        self._report(questions, answers)
        return answers

    def _report(self, questions: Sequence[Question], answers: list[bytes | NoAnswer]) -> None:
        _asked.add(len(questions))
        failed = [answer.problem for answer in answers if isinstance(answer, NoAnswer)]
        if failed:
            _unanswered.add(len(failed))
            log.warning(
                "extender.unanswered", url=questions[0].url, number=len(failed), problem=failed[0]
            )

    async def _ask_all(
        self, session: aiohttp.ClientSession, questions: Sequence[Question], each_s: float
    ) -> list[bytes | NoAnswer]:
        answers: list[bytes | NoAnswer] = [_OUT_OF_TIME] * len(questions)
        numbered = enumerate(questions)

        async def work() -> None:
            for number, question in numbered:
                left_s = self._until - time.monotonic()
                if left_s <= 0:
                    return
                answers[number] = await _ask(session, question, min(each_s, left_s))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(questions))):
                group.create_task(work())
        return answers


async def _ask(
    session: aiohttp.ClientSession, question: Question, within_s: float
) -> bytes | NoAnswer:
    try:
        async with (
            asyncio.timeout(within_s),
            session.post(question.url, data=question.body, allow_redirects=False) as response,
        ):
            if response.status != 200:
                return NoAnswer(f"it answered with status {response.status}")
            return await read_bounded(response, _MOST_BYTES)
    except TimeoutError:
        return NoAnswer(f"it did not answer within {within_s:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        return NoAnswer(str(problem) or type(problem).__name__)


def _is_running_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
