"""A test that leaves a socket or a task behind fails itself, not an innocent later one.

Python complains about a socket that nobody closed when it collects the garbage. That may be many
tests later, and then the wrong test fails. So the garbage is collected at the end of each test
that had an event loop or opened a socket. What Python complains of then, and a socket that is still
open, is an error of this test. What a fixture of a module or of the whole run opened may stay open,
and a client of such a fixture may connect anew to where it was connected.

Collecting costs time in proportion to what is looked at. What was imported will never be garbage,
and what has outlived a test is seldom so later: it is set apart, and only what is new is looked at.
"""

import asyncio
import contextlib
import gc
import os
import socket
import stat
import warnings
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Any, Final, TypeAlias

import pytest

__all__ = [
    "no_task_outlives_its_test",
    "pytest_collection_finish",
    "pytest_fixture_setup",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
]

_LAST_STEPS_S: Final = 5.0
"""A task that was cancelled may still have steps to do; one that runs longer was forgotten."""

_SHOWN: Final = 10

_EVENT_LOOP: Final = "_function_scoped_runner"
"""The fixture of pytest-asyncio that a test with an event loop of its own has."""

_Sockets: TypeAlias = dict[int, int]
"""Descriptors and the inode of each, because the number of a descriptor is used again."""

_before: Final = pytest.StashKey[_Sockets]()
_shared: Final = pytest.StashKey[_Sockets]()
_shared_peers: Final = pytest.StashKey[set[object]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_shared] = {}
    config.stash[_shared_peers] = set()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_before] = _open_sockets()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note what fixtures of many tests open."""
    if fixturedef.scope == "function":
        return (yield)
    before = _open_sockets()
    result = yield
    opened = _new(_open_sockets(), before)
    request.config.stash[_shared].update(opened)
    request.config.stash[_shared_peers].update(filter(None, map(_peer_of, opened)))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Look for what was left when all fixtures of the test have ended."""
    try:
        yield
    finally:  # also after an error, or the next test that looks would find it
        left = _left_open(item)
    if left:
        pytest.fail(f"this test left open:\n{_listed(left)}", pytrace=False)


@pytest.fixture(autouse=True)
def no_task_outlives_its_test(request: pytest.FixtureRequest) -> None:
    """Begin before all other fixtures, so as to look when all of them have ended."""
    if _EVENT_LOOP in request.fixturenames:
        request.getfixturevalue("_all_tasks_end")


@pytest.fixture
async def _all_tasks_end() -> AsyncIterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return
    _, running = await asyncio.wait(others, timeout=_LAST_STEPS_S)
    if running:
        pytest.fail(f"this test left running:\n{_listed(map(repr, running))}", pytrace=False)


def _left_open(item: pytest.Item) -> list[str]:
    before = item.stash.get(_before, {}) | item.config.stash[_shared]
    had_event_loop = _EVENT_LOOP in getattr(item, "fixturenames", ())
    if not had_event_loop and not _new(_open_sockets(), before):
        return []
    complaints = _complaints()
    peers = item.config.stash[_shared_peers]
    left = [one for one in _new(_open_sockets(), before) if _peer_of(one) not in peers]
    return [*complaints, *map(_described, left)]


def _complaints() -> list[str]:
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        gc.collect()
    gc.freeze()
    return [str(complaint.message) for complaint in complaints]


def _open_sockets() -> _Sockets:
    found: _Sockets = {}
    with os.scandir("/dev/fd") as entries:
        for number in (int(entry.name) for entry in entries):
            status = os.fstat(number)
            if stat.S_ISSOCK(status.st_mode):
                found[number] = status.st_ino
    return found


def _new(now: _Sockets, before: _Sockets) -> _Sockets:
    return {number: inode for number, inode in now.items() if before.get(number) != inode}


def _peer_of(number: int) -> object:
    """Where it is connected to; None if it is not."""
    with socket.socket(fileno=os.dup(number)) as duplicate, contextlib.suppress(OSError):
        return duplicate.getpeername() or None
    return None


def _described(number: int) -> str:
    with socket.socket(fileno=os.dup(number)) as duplicate:
        return repr(duplicate)


def _listed(what: Iterable[str]) -> str:
    lines = sorted(line if len(line) <= 300 else f"{line[:300]}…" for line in what)
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(lines[:_SHOWN] + more)
