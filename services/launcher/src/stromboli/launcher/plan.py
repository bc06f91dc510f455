"""Which processes make up Stromboli, in the order in which they start.

Each is the command that a deployment runs, with its settings in the environment or in flags.
"""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from stromboli.launcher.folder import Folder, Installation
from stromboli.runtime.embedded_nats import find_nats_server

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Planned:
    """One process: what to run, and how to know that it is ready."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict[str, str])
    ready_url: str = ""
    ready_file: Path | None = None
    ready_port: int = 0


def nats_url(installation: Installation) -> str:
    return f"nats://{_HOST}:{installation.nats_port}"


def plan(folder: Folder, installation: Installation, crds: Path | None) -> list[Planned]:
    """NATS, the API server, the gateway."""
    sandbox = [
        *(sys.executable, "-m", "stromboli.sandbox", "api"),
        *("--data-dir", str(folder.api_data)),
        *("--listen", f"{_HOST}:{installation.api_port}"),
        *("--kubeconfig-out", str(folder.kubeconfig)),
    ]
    if crds is not None:
        sandbox += ["--crds", str(crds)]
    return [
        Planned(
            "nats",
            (str(find_nats_server()), "-c", str(folder.nats_config)),
            ready_port=installation.nats_port,
        ),
        Planned("api", tuple(sandbox), ready_file=folder.kubeconfig),
        Planned(
            "gateway",
            (sys.executable, "-m", "stromboli.gateway"),
            {
                "STROMBOLI_GATEWAY_BUS__URL": nats_url(installation),
                "STROMBOLI_GATEWAY_BUS__USER": "gateway",
                "STROMBOLI_GATEWAY_BUS__PASSWORD_FILE": str(folder.password_file("gateway")),
                "STROMBOLI_GATEWAY_KUBE__KUBECONFIG": str(folder.kubeconfig),
                "STROMBOLI_GATEWAY_HEALTH__PORT": str(installation.gateway_port),
            },
            ready_url=f"http://{_HOST}:{installation.gateway_port}/readyz",
        ),
    ]


def environment_of(planned: Planned) -> dict[str, str]:
    """The launcher's own environment without settings of services, and the planned ones."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("STROMBOLI_")}
    return {**inherited, "LOG_FORMAT": "json", **planned.env}


async def is_ready(planned: Planned, session: aiohttp.ClientSession) -> bool:
    if planned.ready_file is not None and not planned.ready_file.exists():
        return False
    if planned.ready_port and not await _accepts(planned.ready_port):
        return False
    if planned.ready_url:
        try:
            async with session.get(planned.ready_url) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False
    return True


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(_HOST, port)
    except OSError:
        return False
    writer.close()
    return True
