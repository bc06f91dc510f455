"""The process of a deciding service: the same for every core, which a `__main__` only names.

Connections, health, telemetry and the shell are opened here and closed in order; the lease is
given back at the end, so that a standby leads at once.
"""

import os
import socket
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol

from stromboli.contracts.stimuli import Core
from stromboli.contracts.subjects import CLUSTER
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.collecting import collect_rarely
from stromboli.runtime.deciding import DecidingShell, Prober, Reader
from stromboli.runtime.health import Health, HealthServer, HealthSettings, NotReady, Ok
from stromboli.runtime.logs import LogSettings
from stromboli.runtime.process import Lifetime, Step, run_service
from stromboli.runtime.telemetry import Telemetry
from stromboli.runtime.turn import Pace
from stromboli.runtime.units import Duration

__all__ = ["DecidingSettings", "run_deciding_service"]


class DecidingSettings(Protocol):
    """What the settings of every deciding service have."""

    @property
    def bus(self) -> BusSettings: ...
    @property
    def health(self) -> HealthSettings: ...
    @property
    def log(self) -> LogSettings: ...
    @property
    def instance(self) -> str: ...
    @property
    def lease_life(self) -> Duration: ...
    @property
    def safety_every(self) -> Duration: ...


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one service has and another has not."""

    kinds: Sequence[str]
    make_core: Callable[[], Core]
    shard: str
    probe: Prober | None
    read: Reader | None
    beside: Callable[[DecidingShell], Coroutine[None, None, None]] | None


def run_deciding_service(
    service: str,
    settings: DecidingSettings,
    *,
    kinds: Sequence[str],
    make_core: Callable[[], Core],
    shard: str = CLUSTER,
    probe: Prober | None = None,
    read: Reader | None = None,
    beside: Callable[[DecidingShell], Coroutine[None, None, None]] | None = None,
) -> int:
    """Run until told to stop; the exit code for `sys.exit`.

    What runs `beside` the shell ends with it, and may wake it.
    """
    collect_rarely()

    async def live(life: Lifetime) -> None:
        parts = _Parts(
            kinds=kinds, make_core=make_core, shard=shard, probe=probe, read=read, beside=beside
        )
        await _serve(service, settings, life, parts)

    return run_service(live, service=service, log_settings=settings.log)


def _unique_name() -> str:
    """No other process ever has it, so none takes another's lease."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


async def _serve(
    service: str,
    settings: DecidingSettings,
    life: Lifetime,
    parts: _Parts,
) -> None:
    clock = SystemClock()
    telemetry = Telemetry.start(service)
    health = Health(watchdog=life.watchdog)
    async with (
        HealthServer(health, settings.health, metrics=telemetry.render),
        connect(settings.bus, service) as connection,
        publishing(connection, clock) as publisher,
    ):
        shell = DecidingShell(
            service=service,
            kinds=parts.kinds,
            make_core=parts.make_core,
            shard=parts.shard,
            probe=parts.probe,
            read=parts.read,
            connection=connection,
            publisher=publisher,
            clock=clock,
            holder=settings.instance or _unique_name(),
            lease_life_s=settings.lease_life,
            pace=Pace(safety_every_s=settings.safety_every),
        )

        def readiness() -> Ok | NotReady:
            reason = shell.not_ready()
            role = "deciding" if shell.deciding else "standing by"
            return Ok(role) if reason is None else NotReady(reason)

        health.check(service, readiness)
        life.spawn("shell", shell.run(), until=Step.STOP_INTAKE)
        if parts.beside is not None:
            life.spawn("beside the shell", parts.beside(shell), until=Step.STOP_INTAKE)
        await life.serve()
    await telemetry.shutdown()
