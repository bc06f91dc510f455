"""The bus as the tests of the runtime use it: a real server, and a member of the bus on it."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from stromboli.testkit.bus_fixtures import bus

__all__ = ["bus"]


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests live on asyncio's own loop, services on uvloop, and their sockets break differently.

    A module whose tests are to run on both names them in its marker `asyncio`.
    """
    marker = item.get_closest_marker("asyncio")
    if marker is not None and "loop_factories" in marker.kwargs:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
