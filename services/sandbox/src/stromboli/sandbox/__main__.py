"""`stromboli-sandbox api`: the embedded API server as a process of its own."""

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from stromboli.sandbox.config import SandboxConfig
from stromboli.sandbox.errors import ConfigError, SandboxError
from stromboli.sandbox.logs import configure_logging
from stromboli.sandbox.server import SandboxServer

_EPILOG: Final = """
example:
  stromboli-sandbox api --data-dir ./sandbox --kubeconfig-out ./kubeconfig --crds deploy/crds
  KUBECONFIG=./kubeconfig kubectl get namespaces

The data directory keeps the objects (journal-*, snapshot-*), the certificates and the
administrator's token (pki/), and audit.log. Starting again with the same directory goes on where
the last run stopped, also after a kill -9. Use it for local work, tests and simulation.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="stromboli-sandbox", description="Kubernetes without a cluster: an API server."
    )
    commands = top.add_subparsers(dest="command", required=True)
    api = commands.add_parser(
        "api",
        help="run the API server",
        description="Run an embedded Kubernetes API server until SIGTERM or SIGINT.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    api.add_argument("--data-dir", type=Path, required=True, help="where everything is kept")
    api.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="address to serve on; port 0 takes any free one (default: %(default)s)",
    )
    api.add_argument("--kubeconfig-out", type=Path, help="write a kubeconfig for kubectl here")
    api.add_argument(
        "--kubeconfigs-out",
        type=Path,
        metavar="DIR",
        help="write one for each user of the token file there, named like the user",
    )
    api.add_argument("--crds", type=Path, help="directory of CRD manifests to create or update")
    api.add_argument(
        "--token-file", type=Path, help='further users: lines of token,user,uid,"group1,group2"'
    )
    api.add_argument("--audit-log", type=Path, help="default: audit.log in the data directory")
    api.add_argument("--insecure-http", action="store_true", help="no TLS; for tests only")
    api.add_argument(
        "--bookmark-interval",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how often watchers are told the current resourceVersion (default: %(default)s)",
    )
    api.add_argument(
        "--watch-window",
        type=int,
        default=20_000,
        metavar="N",
        help="changes per resource that a watch can resume from (default: %(default)s)",
    )
    api.add_argument(
        "--fsync",
        choices=("never", "interval", "always"),
        default="never",
        help="never survives the death of the process; interval and always also that of the"
        " machine (default: %(default)s)",
    )
    api.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return top


def config_of(arguments: argparse.Namespace) -> SandboxConfig:
    host, _, port = arguments.listen.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError("listen", f"{arguments.listen!r} is not HOST:PORT")
    return SandboxConfig(
        data_dir=arguments.data_dir,
        host=host,
        port=int(port),
        tls=not arguments.insecure_http,
        token_file=arguments.token_file,
        kubeconfig_out=arguments.kubeconfig_out,
        kubeconfigs_out=arguments.kubeconfigs_out,
        crds=arguments.crds,
        audit_log=arguments.audit_log,
        bookmark_interval_s=arguments.bookmark_interval,
        watch_window=arguments.watch_window,
        fsync=arguments.fsync,
    ).checked()


async def serve(config: SandboxConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with SandboxServer(config) as server, asyncio.TaskGroup() as group:
        # What was loaded stays: the garbage collector need not walk it again and again.
        gc.freeze()
        print(f"stromboli-sandbox api ready at {server.url}", flush=True)
        failing = group.create_task(server.wait_failed())
        await stop.wait()
        failing.cancel()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    configure_logging(arguments.log_level)
    try:
        uvloop.run(serve(config_of(arguments)))
    except (SandboxError, OSError) as error:
        print(f"stromboli-sandbox: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
