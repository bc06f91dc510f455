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
from stromboli.launcher.options import Options
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


def nats_url(installation: Installation, options: Options) -> str:
    return options.nats or f"nats://{_HOST}:{installation.nats_port}"


def kubeconfig_of(folder: Folder, options: Options) -> str:
    return options.kubeconfig or str(folder.kubeconfig)


def plan(folder: Folder, installation: Installation, options: Options) -> list[Planned]:
    """Everything that has to run, in the order in which it starts."""
    planned: list[Planned] = []
    if not options.nats:
        planned.append(_nats(folder, installation))
    if not options.kubeconfig:
        planned += [_api(folder, installation, options), _kubelets(folder, options)]
    planned += [
        _service(name, folder, installation, options)
        for name in ("gateway", "controllers", "scheduler")
    ]
    return planned


def _nats(folder: Folder, installation: Installation) -> Planned:
    argv = (str(find_nats_server()), "-c", str(folder.nats_config))
    return Planned("nats", argv, ready_port=installation.nats_port)


def _api(folder: Folder, installation: Installation, options: Options) -> Planned:
    argv = [
        *(sys.executable, "-m", "stromboli.sandbox", "api"),
        *("--data-dir", str(folder.api_data)),
        *("--listen", f"{_HOST}:{installation.ports['api']}"),
        *("--kubeconfig-out", str(folder.kubeconfig)),
    ]
    if options.crds:
        argv += ["--crds", options.crds]
    return Planned("api", tuple(argv), ready_file=folder.kubeconfig)


def _kubelets(folder: Folder, options: Options) -> Planned:
    argv = [
        *(sys.executable, "-m", "stromboli.sandbox.kubelets"),
        *("--kubeconfig", str(folder.kubeconfig)),
        *("--nodes", options.nodes, "--runtime", options.runtime),
        *("--data-dir", str(folder.root / "pods")),
    ]
    if options.rules:
        argv += ["--rules", options.rules]
    return Planned("kubelets", tuple(argv))


def _service(name: str, folder: Folder, installation: Installation, options: Options) -> Planned:
    """One of our own services: its settings by environment, its health page by port."""
    prefix = f"STROMBOLI_{name.upper()}"
    port = installation.ports[name]
    env = {
        f"{prefix}_BUS__URL": nats_url(installation, options),
        f"{prefix}_HEALTH__PORT": str(port),
    }
    if not options.nats:
        env[f"{prefix}_BUS__USER"] = name
        env[f"{prefix}_BUS__PASSWORD_FILE"] = str(folder.password_file(name))
    if name == "gateway":
        env[f"{prefix}_KUBE__KUBECONFIG"] = kubeconfig_of(folder, options)
    argv = (sys.executable, "-m", f"stromboli.{name}")
    return Planned(name, argv, env, ready_url=f"http://{_HOST}:{port}/readyz")


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
