"""Run something beside a test, and end it with the test; its failure is the test's failure."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

__all__ = ["background"]


@contextlib.asynccontextmanager
async def background(
    *work: Coroutine[Any, Any, None],
) -> AsyncGenerator[list["asyncio.Task[None]"]]:
    """The tasks run while the block does; one that fails is raised at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem
