"""Ask a metrics system how busy the nodes are, again and again.

What it says is a hint and never needed: when it can't be had, the last measurement grows old, and
the `usage` plugin goes by requests alone. Nodes are known by the label `instance`, as in Volcano.
"""

import asyncio
import math
import time
from typing import Any, Final

import aiohttp
import msgspec

from stromboli.api.durations import SECOND, parse_duration
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.logs import get_logger
from stromboli.runtime.telemetry import counter
from stromboli.scheduler.bounded import read_bounded
from stromboli.scheduler.configuration import Configuration
from stromboli.scheduling.conf import MetricsConf
from stromboli.scheduling.loads import NO_LOADS, Loads, NodeLoad

__all__ = ["Measuring"]

log = get_logger(__name__)

_failures = counter("stromboli.scheduler.measurements.failed", "Measurements that could not be had")

_CPU: Final = '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[10m]))'
_MEMORY: Final = (
    "1 - avg_over_time(node_memory_MemAvailable_bytes[10m]) / node_memory_MemTotal_bytes"
)
_ANSWER_S: Final = 10.0
_MOST_BYTES: Final = 32 * 2**20
_LOOK_AGAIN_S: Final = 2.0


class Measuring:
    """The newest measurement, for whoever decides."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.loads: Loads = NO_LOADS

    async def follow(self, shell: DecidingShell) -> None:
        """Measure as the configuration says; ends only by cancellation."""
        while True:
            metrics = self._configuration.conf.metrics
            if metrics is None:
                if self.loads is not NO_LOADS:
                    self.loads = NO_LOADS
                    shell.wake()
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            try:
                self.loads = await measure(metrics)
                shell.wake()
            except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
                _failures.add(1)
                log.warning("measurement.failed", address=metrics.address, problem=str(problem))
            await asyncio.sleep(max(1.0, parse_duration(metrics.interval) / SECOND))


async def measure(metrics: MetricsConf) -> Loads:
    """Raises ClientError or TimeoutError for no answer, ValueError for one that makes no sense."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    connector = aiohttp.TCPConnector(ssl=not metrics.insecure)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        cpu = await _query(session, metrics.address, _CPU)
        memory = await _query(session, metrics.address, _MEMORY)
    of = {name: NodeLoad(load, memory[name]) for name, load in cpu.items() if name in memory}
    return Loads(time.time(), of)


async def _query(session: aiohttp.ClientSession, address: str, query: str) -> dict[str, float]:
    url = f"{address.rstrip('/')}/api/v1/query"
    async with session.get(url, params={"query": query}) as response:
        response.raise_for_status()
        return _values(await read_bounded(response, _MOST_BYTES))


def _values(raw: bytes) -> dict[str, float]:
    try:
        answer: Any = msgspec.json.decode(raw)
        samples = answer["data"]["result"]
        found = {one["metric"]["instance"]: float(one["value"][1]) for one in samples}
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, RecursionError) as fault:
        raise ValueError(f"expected a vector of samples by instance: {fault!r}") from fault
    return {name: load for name, load in found.items() if math.isfinite(load)}
