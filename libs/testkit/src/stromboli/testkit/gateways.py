"""Gateways of a test: real processes between a real NATS server and an API server."""

from collections.abc import Mapping
from pathlib import Path

from stromboli.testkit.services import ServiceProcess

__all__ = ["GatewayProcess"]


class GatewayProcess(ServiceProcess):
    """`stromboli-gateway` with settings that make a test quick."""

    def __init__(
        self,
        directory: Path,
        *,
        nats_url: str,
        kubeconfig: Path,
        name: str = "gateway",
        crash_at: str = "",
        env: Mapping[str, str] | None = None,
        lease_life: str = "2s",
        relist_every: str = "30m",
        password: str = "",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "STROMBOLI_GATEWAY_BUS__URL": nats_url,
            "STROMBOLI_GATEWAY_KUBE__KUBECONFIG": str(kubeconfig),
            "STROMBOLI_GATEWAY_KUBE__RELIST_EVERY": relist_every,
            "STROMBOLI_GATEWAY_HEALTH__PORT": "0",
            "STROMBOLI_GATEWAY_LEASE_LIFE": lease_life,
        }
        if password:
            settings["STROMBOLI_GATEWAY_BUS__USER"] = "gateway"
            settings["STROMBOLI_GATEWAY_BUS__PASSWORD"] = password
        if crash_at:
            settings["STROMBOLI_CRASH_AT"] = crash_at
        super().__init__(
            "stromboli.gateway", directory=directory, name=name, env={**settings, **(env or {})}
        )
