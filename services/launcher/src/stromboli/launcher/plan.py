"""Which processes make up Stromboli, in the order in which they start.

Each is the command that a deployment runs, with its settings in the environment or in flags.
"""

import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from stromboli.launcher.bus_files import API_USERS
from stromboli.launcher.folder import Folder, Installation
from stromboli.launcher.options import Options
from stromboli.runtime.embedded_nats import find_nats_server

_HOST = "127.0.0.1"
_BESIDE = frozenset({"admission", "scheduler"})
"""Admission waits for the gateway's certificates, the scheduler for nobody's but its facts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One process: what to run, and how to know that it is ready."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict[str, str])
    ready_url: str = ""
    ready_file: Path | None = None
    ready_port: int = 0
    ready_line: str = ""
    """What it writes to its log once it is ready, where there is nothing to ask."""
    beside: bool = False
    """Started together with the one before it, which it waits for by itself."""


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
    planned += [_service(name, folder, installation, options) for name in services_of(options)]
    return planned


def services_of(options: Options) -> tuple[str, ...]:
    """Our own services, in the order in which they start.

    The gateway makes the certificates that admission waits for, and admission answers before
    the controllers make their first object.
    """
    admission = ("admission",) if options.admission else ()
    return ("gateway", *admission, "controllers", "scheduler")


def _nats(folder: Folder, installation: Installation) -> Planned:
    argv = (str(find_nats_server()), "-c", str(folder.nats_config))
    return Planned("nats", argv, ready_port=installation.nats_port)


def _api(folder: Folder, installation: Installation, options: Options) -> Planned:
    argv = [
        *(sys.executable, "-m", "stromboli.sandbox", "api"),
        *("--data-dir", str(folder.api_data)),
        *("--listen", f"{_HOST}:{installation.ports['api']}"),
        *("--kubeconfig-out", str(folder.kubeconfig)),
        *("--audit-log", str(folder.root / "audit.log")),
        *("--token-file", str(folder.api_users)),
        *("--kubeconfigs-out", str(folder.kubeconfigs)),
    ]
    if options.crds:
        argv += ["--crds", options.crds]
    ready_url = f"https://{_HOST}:{installation.ports['api']}/readyz"
    return Planned("api", tuple(argv), ready_file=folder.kubeconfig, ready_url=ready_url)


def _kubelets(folder: Folder, options: Options) -> Planned:
    argv = [
        *(sys.executable, "-m", "stromboli.sandbox.kubelets"),
        *("--kubeconfig", str(folder.kubeconfig)),
        *("--nodes", options.nodes, "--runtime", options.runtime),
        *("--data-dir", str(folder.root / "pods")),
    ]
    if options.rules:
        argv += ["--rules", options.rules]
    return Planned("kubelets", tuple(argv), ready_line="nodes, runtime")


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
    if name != "admission":
        # The launcher starts each of them once at a time, so a restarted one leads at once.
        env[f"{prefix}_INSTANCE"] = f"{socket.gethostname()}:{folder.root}"
    if name in API_USERS:
        env[f"{prefix}_KUBE__KUBECONFIG"] = options.kubeconfig or str(folder.kubeconfigs / name)
    if name == "gateway":
        env |= _webhooks(prefix, folder, installation, options)
    if name == "admission":
        env |= {
            f"{prefix}_HTTPS__PORT": str(installation.ports["webhooks"]),
            f"{prefix}_HTTPS__CERTIFICATE": str(folder.certificates / "tls.crt"),
            f"{prefix}_HTTPS__KEY": str(folder.certificates / "tls.key"),
            # There is no other admission that the API server could ask meanwhile.
            f"{prefix}_HTTPS__GRACE": "0s",
            # What the gateway makes was asked for by whoever made the job.
            f"{prefix}_TRUSTED_USERS": "gateway",
        }
    argv = (sys.executable, "-m", f"stromboli.{name}")
    # Where there are kubelets, the gateway starts with them: it only waits for the API server.
    beside = name in _BESIDE or (name == "gateway" and not options.kubeconfig)
    return Planned(name, argv, env, ready_url=f"http://{_HOST}:{port}/readyz", beside=beside)


def _webhooks(
    prefix: str, folder: Folder, installation: Installation, options: Options
) -> dict[str, str]:
    """Lead the API server to admission; without it, away from one that was there before."""
    if options.admission:
        return {
            f"{prefix}_WEBHOOKS__MODE": "keep",
            f"{prefix}_WEBHOOKS__URL": f"https://{_HOST}:{installation.ports['webhooks']}",
            f"{prefix}_WEBHOOKS__FOLDER": str(folder.certificates),
        }
    # In a cluster that is not ours, somebody else may have registered them.
    return {} if options.kubeconfig else {f"{prefix}_WEBHOOKS__MODE": "remove"}


def environment_of(planned: Planned) -> dict[str, str]:
    """The launcher's own environment without settings of services, and the planned ones."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("STROMBOLI_")}
    return {**inherited, "LOG_FORMAT": "json", **planned.env}
