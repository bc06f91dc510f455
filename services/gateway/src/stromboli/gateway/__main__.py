"""`stromboli-gateway`: read the settings, open the connections, take turns in leading."""

import os
import random
import socket
import sys
import uuid

from stromboli.contracts.streams import OUTCOME
from stromboli.gateway.config import GatewaySettings
from stromboli.gateway.leading import Gateway
from stromboli.kube.client import KubeClient
from stromboli.kube.settings import KubeAccess, Limits
from stromboli.runtime.bus.connection import connect
from stromboli.runtime.bus.publisher import publishing
from stromboli.runtime.bus.reader import LogReader
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.health import Health, HealthServer, NotReady, Ok
from stromboli.runtime.process import Lifetime, Step, run_service
from stromboli.runtime.settings import load_or_exit
from stromboli.runtime.telemetry import Telemetry

SERVICE = "gateway"
EXAMPLES = (
    "stromboli-gateway --kube-kubeconfig ~/.kube/config --bus-url nats://127.0.0.1:4222",
    "stromboli-gateway --kube-in-cluster --bus-user gateway --bus-password-file /etc/nats/password",
)


def kube_access(settings: GatewaySettings) -> KubeAccess:
    kube = settings.kube
    return KubeAccess(
        kubeconfig=kube.kubeconfig or None,
        context=kube.context or None,
        in_cluster=kube.in_cluster,
        user_agent="stromboli-gateway",
        # Watches hold a connection each, beside those of the requests.
        limits=Limits(max_in_flight=kube.max_in_flight, max_connections=kube.max_in_flight + 32),
    )


async def serve(settings: GatewaySettings, life: Lifetime) -> None:
    """Run until told to stop: the lease is given back, so that a standby leads at once."""
    clock = SystemClock()
    telemetry = Telemetry.start(SERVICE)
    health = Health(watchdog=life.watchdog)
    unique = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
    holder = settings.instance or unique
    async with (
        HealthServer(health, settings.health, metrics=telemetry.render),
        connect(settings.bus, SERVICE) as connection,
        publishing(connection, clock) as publisher,
        KubeClient.connect(kube_access(settings)) as kube,
    ):
        gateway = Gateway(
            settings,
            connection,
            publisher,
            kube,
            clock,
            holder,
            random.Random(unique),  # noqa: S311 (spreads retries, guards nothing)
        )

        def readiness() -> Ok | NotReady:
            reason = gateway.not_ready()
            role = "leading" if gateway.is_leading else "standing by"
            return Ok(role) if reason is None else NotReady(reason)

        health.check("gateway", readiness)
        outcomes = LogReader(
            connection,
            clock,
            stream=OUTCOME.name,
            filters=["vc.outcome.>"],
            listener=gateway.answered,
        )
        life.spawn("streams", gateway.keep_streams(), until=Step.CLOSE)
        life.spawn("state", gateway.read_state(), until=Step.CLOSE)
        life.spawn("outcomes", outcomes.run(), until=Step.CLOSE)
        life.spawn("rubbish", gateway.put_rubbish_aside(), until=Step.CLOSE)
        if gateway.journal is not None:
            life.spawn("journal", gateway.journal.run(), until=Step.CLOSE)
        life.spawn("turns", gateway.take_turns(), until=Step.STOP_INTAKE)
        await life.serve()
    await telemetry.shutdown()


def main() -> None:
    settings = load_or_exit(GatewaySettings, service=SERVICE, examples=EXAMPLES)

    async def live(life: Lifetime) -> None:
        await serve(settings, life)

    sys.exit(run_service(live, service=SERVICE, log_settings=settings.log))


if __name__ == "__main__":
    main()
