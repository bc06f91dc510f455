"""Deciding services of a test: real processes on a real NATS server."""

from collections.abc import Mapping
from pathlib import Path

from stromboli.testkit.services import ServiceProcess

__all__ = ["DeciderProcess"]


class DeciderProcess(ServiceProcess):
    """`stromboli-controllers` or another service with a core, set to be quick."""

    def __init__(
        self,
        service: str,
        directory: Path,
        *,
        nats_url: str,
        name: str = "",
        lease_life: str = "2s",
        crash_at: str = "",
        password: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        prefix = f"STROMBOLI_{service.upper()}"
        settings = {
            f"{prefix}_BUS__URL": nats_url,
            f"{prefix}_HEALTH__PORT": "0",
            f"{prefix}_LEASE_LIFE": lease_life,
        }
        if password:
            settings[f"{prefix}_BUS__USER"] = service
            settings[f"{prefix}_BUS__PASSWORD"] = password
        if crash_at:
            settings["STROMBOLI_CRASH_AT"] = crash_at
        super().__init__(
            f"stromboli.{service}",
            directory=directory,
            name=name or service,
            env={**settings, **(env or {})},
        )
