"""`stromboli-controllers`: read the settings, open the connections, let the core decide."""

import os
import socket
import sys
import uuid

from stromboli.contracts.permissions import CONTROLLERS
from stromboli.controllers.config import ControllersSettings
from stromboli.lifecycle.core import LifecycleCore
from stromboli.lifecycle.world import READS
from stromboli.runtime.bus.connection import connect
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.health import Health, HealthServer, NotReady, Ok
from stromboli.runtime.process import Lifetime, Step, run_service
from stromboli.runtime.settings import load_or_exit
from stromboli.runtime.telemetry import Telemetry

SERVICE = CONTROLLERS
EXAMPLES = (
    "stromboli-controllers --bus-url nats://127.0.0.1:4222",
    "stromboli-controllers --bus-user controllers --bus-password-file /etc/nats/password",
)


def make_core() -> LifecycleCore:
    """A core for one turn as leader; no two turns may use the same intent ids."""
    return LifecycleCore(turn=uuid.uuid4().hex)


async def serve(settings: ControllersSettings, life: Lifetime) -> None:
    """Run until told to stop: the lease is given back, so that a standby leads at once."""
    clock = SystemClock()
    telemetry = Telemetry.start(SERVICE)
    health = Health(watchdog=life.watchdog)
    async with (
        HealthServer(health, settings.health, metrics=telemetry.render),
        connect(settings.bus, SERVICE) as connection,
        publishing(connection, clock) as publisher,
    ):
        shell = DecidingShell(
            service=SERVICE,
            kinds=READS,
            make_core=make_core,
            connection=connection,
            publisher=publisher,
            clock=clock,
            holder=f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}",
            lease_life_s=settings.lease_life,
            safety_every_s=settings.safety_every,
        )

        def readiness() -> Ok | NotReady:
            reason = shell.not_ready()
            role = "deciding" if shell.deciding else "standing by"
            return Ok(role) if reason is None else NotReady(reason)

        health.check("controllers", readiness)
        life.spawn("shell", shell.run(), until=Step.STOP_INTAKE)
        await life.serve()
    await telemetry.shutdown()


def main() -> None:
    settings = load_or_exit(ControllersSettings, service=SERVICE, examples=EXAMPLES)

    async def live(life: Lifetime) -> None:
        await serve(settings, life)

    sys.exit(run_service(live, service=SERVICE, log_settings=settings.log))


if __name__ == "__main__":
    main()
