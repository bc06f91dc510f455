"""Admission of a test: a real process, and an API server that a gateway leads to it."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.gateways import GatewayProcess
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.services import ServiceProcess

__all__ = ["AdmissionProcess", "AdmissionStack"]


class AdmissionProcess(ServiceProcess):
    """`stromboli-admission` with the certificate files of a folder (`tls.crt`, `tls.key`)."""

    def __init__(
        self,
        directory: Path,
        *,
        nats_url: str,
        kubeconfig: Path,
        certificates: Path,
        port: int = 0,
        name: str = "admission",
        password: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "STROMBOLI_ADMISSION_BUS__URL": nats_url,
            "STROMBOLI_ADMISSION_KUBE__KUBECONFIG": str(kubeconfig),
            "STROMBOLI_ADMISSION_HEALTH__PORT": "0",
            "STROMBOLI_ADMISSION_HTTPS__PORT": str(port),
            "STROMBOLI_ADMISSION_HTTPS__CERTIFICATE": str(certificates / "tls.crt"),
            "STROMBOLI_ADMISSION_HTTPS__KEY": str(certificates / "tls.key"),
            "STROMBOLI_ADMISSION_HTTPS__LOOK_EVERY": "50ms",
        }
        if password:
            settings["STROMBOLI_ADMISSION_BUS__USER"] = "admission"
            settings["STROMBOLI_ADMISSION_BUS__PASSWORD"] = password
        super().__init__(
            "stromboli.admission", directory=directory, name=name, env={**settings, **(env or {})}
        )

    async def https_url(self, deadline_s: float = 40.0) -> str:
        """Where it takes reviews, once it listens."""
        event = await self.until_event("https.listening", deadline_s)
        return f"https://{event['host']}:{event['port']}"


@dataclass
class AdmissionStack:
    """A gateway that makes the certificates and registers the webhooks, and an admission."""

    directory: Path
    nats: NatsServer
    api: ApiServer
    webhooks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of the gateway's group `webhooks`, by their names in the environment."""
    port: int = field(init=False)
    gateway: GatewayProcess = field(init=False)
    admission: AdmissionProcess = field(init=False)

    def __post_init__(self) -> None:
        # The gateway is told where admission will be before admission is there.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    @property
    def certificates(self) -> Path:
        return self.directory / "certificates"

    def start_gateway(self, name: str = "gateway") -> GatewayProcess:
        settings = {
            "MODE": "keep",
            "URL": f"https://127.0.0.1:{self.port}",
            "FOLDER": str(self.certificates),
            "LOOK_EVERY": "100ms",
            **self.webhooks,
        }
        self.gateway = GatewayProcess(
            self.directory / name,
            nats_url=self.nats.url,
            kubeconfig=self.api.kubeconfig,
            name=name,
            env={f"STROMBOLI_GATEWAY_WEBHOOKS__{key}": value for key, value in settings.items()},
        )
        return self.gateway

    def start_admission(self, name: str = "admission") -> AdmissionProcess:
        self.admission = AdmissionProcess(
            self.directory / name,
            nats_url=self.nats.url,
            kubeconfig=self.api.kubeconfig,
            certificates=self.certificates,
            port=self.port,
            name=name,
        )
        return self.admission
