"""`stromboli-scheduler`: read the settings, open the connections, let the core decide."""

import os
import socket
import sys
import uuid

from stromboli.contracts.permissions import SCHEDULER
from stromboli.runtime.bus.connection import connect
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.health import Health, HealthServer, NotReady, Ok
from stromboli.runtime.process import Lifetime, Step, run_service
from stromboli.runtime.settings import load_or_exit
from stromboli.runtime.telemetry import Telemetry
from stromboli.scheduler.config import SchedulerSettings
from stromboli.scheduling.core import KINDS, SchedulerCore

SERVICE = SCHEDULER
EXAMPLES = (
    "stromboli-scheduler --bus-url nats://127.0.0.1:4222",
    "stromboli-scheduler --bus-user scheduler --bus-password-file /etc/nats/password",
)


async def serve(settings: SchedulerSettings, life: Lifetime) -> None:
    """Run until told to stop: the lease is given back, so that a standby leads at once."""
    clock = SystemClock()
    telemetry = Telemetry.start(SERVICE)
    health = Health(watchdog=life.watchdog)
    conf = settings.scheduling()
    async with (
        HealthServer(health, settings.health, metrics=telemetry.render),
        connect(settings.bus, SERVICE) as connection,
        publishing(connection, clock) as publisher,
    ):
        shell = DecidingShell(
            service=SERVICE,
            kinds=KINDS,
            make_core=lambda: SchedulerCore(conf),
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

        health.check("scheduler", readiness)
        life.spawn("shell", shell.run(), until=Step.STOP_INTAKE)
        await life.serve()
    await telemetry.shutdown()


def main() -> None:
    settings = load_or_exit(SchedulerSettings, service=SERVICE, examples=EXAMPLES)

    async def live(life: Lifetime) -> None:
        await serve(settings, life)

    sys.exit(run_service(live, service=SERVICE, log_settings=settings.log))


if __name__ == "__main__":
    main()
