"""`stromboli-kubelets`: virtual nodes for any API server, until SIGTERM or SIGINT."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from stromboli.kube import KubeAccess, KubeClient
from stromboli.sandbox.errors import ConfigError
from stromboli.sandbox.kubelets.agent import KubeletAgent
from stromboli.sandbox.kubelets.fleet import NodeGroup, read_fleet
from stromboli.sandbox.kubelets.mounts import PodFiles
from stromboli.sandbox.kubelets.rules import Rule, read_rules
from stromboli.sandbox.kubelets.runtimes import Processes, Runtime, Simulated

_EPILOG = """
examples:
  stromboli-kubelets --kubeconfig ./kubeconfig --nodes 3
  stromboli-kubelets --kubeconfig ./kubeconfig --nodes nodes.yaml --rules rules.yaml
  stromboli-kubelets --kubeconfig ./kubeconfig --nodes 1 --runtime process --data-dir ./pods

A simulated pod behaves by its annotations (sandbox.stromboli.sh/start, /run, /exit), by the
first rule whose labels it has, or by its command: sleep N, exit N, sleep N && exit M. Anything
else runs until it is stopped. A process pod runs its first container's command on this machine.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="stromboli-kubelets",
        description="Virtual nodes that run pods, simulated or as local processes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--kubeconfig", required=True, help="which API server, and as whom")
    top.add_argument(
        "--nodes",
        default="3",
        help="a number of nodes (8 cpu, 32Gi), or a YAML file of groups (default: %(default)s)",
    )
    top.add_argument(
        "--runtime",
        choices=["simulate", "process"],
        default="simulate",
        help="how pods run (default: %(default)s)",
    )
    top.add_argument("--rules", type=Path, help="YAML file: how simulated pods behave, by labels")
    top.add_argument(
        "--data-dir",
        type=Path,
        default=Path("pods"),
        help="folders of process pods (default: pods)",
    )
    return top


async def serve(arguments: argparse.Namespace, fleet: list[NodeGroup], rules: list[Rule]) -> None:
    access = KubeAccess(kubeconfig=arguments.kubeconfig, user_agent="stromboli-kubelets")
    async with KubeClient.connect(access) as kube:
        runtime: Runtime = (
            Simulated(rules)
            if arguments.runtime == "simulate"
            else Processes(PodFiles(kube, arguments.data_dir.resolve()))
        )
        agent = KubeletAgent(kube, fleet, runtime)
        running = asyncio.create_task(agent.run())
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, running.cancel)
        count = sum(len(group.names()) for group in fleet)
        print(f"{count} nodes, runtime {arguments.runtime}", flush=True)
        await asyncio.wait({running})
        if not running.cancelled():
            running.result()


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(argv)
    try:
        fleet, rules = read_fleet(arguments.nodes), read_rules(arguments.rules)
    except ConfigError as problem:
        sys.exit(f"stromboli-kubelets: {problem}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments, fleet, rules))


if __name__ == "__main__":
    main()
