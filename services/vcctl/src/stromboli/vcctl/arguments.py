"""The command line of vcctl: Volcano's flags with Volcano's meanings, and help that teaches.

Volcano's letters are kept even where they surprise: `-n` is the namespace and `-N` the name
of a job. Flags may stand anywhere behind the command, and are never guessed from their
beginnings. A wrong line ends with the command's usage and a `Failed to …` sentence.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from typing import Any, Final, NoReturn

from stromboli.api.durations import SECOND, parse_duration
from stromboli.api.errors import DurationError
from stromboli.contracts.permissions import OPERATOR
from stromboli.runtime.bus.connection import BusSettings
from stromboli.vcctl import bus_tail, jobs, queues
from stromboli.vcctl.errors import BadLine

__all__ = ["SIMULATE", "parse"]

SIMULATE: Final = "vcctl simulate"

_SIMULATE: Final = """\
Show what would become of these objects, without any cluster.

The controllers and the scheduler decide in memory as they would in a cluster: admission
completes and checks what is given, jobs are expanded, pods with a nodeName run there, statuses
are believed. Nothing is sent anywhere.
"""

_RESOURCES: Final = "cpu=1000m,memory=100Mi"


class _Parser(ArgumentParser):
    """Reports a wrong line as an error of ours, so that main decides how it ends."""

    def error(self, message: str) -> NoReturn:
        raise BadLine(self.prog, f"{message}\n\n{self.format_usage()}Try `{self.prog} --help`.")


def parse(argv: list[str] | None) -> Namespace:
    """What was asked for: `run` and `needs` say by whom it is done, `path` what it is called."""
    root = _Parser(
        prog="vcctl",
        description="Run, see and stop batch jobs on Kubernetes.",
        epilog=(
            "examples:\n"
            "  vcctl job run -f examples/mpi-job.yaml    submit a job\n"
            "  vcctl job list                            the jobs of the namespace `default`\n"
            "  vcctl job view -N hello-mpi               all about one job, with its events\n"
            "  vcctl queue list                          queues, and what waits and runs in them\n"
            "  vcctl simulate -f cluster.yaml            what would be placed where, and why not\n"
            "\n`vcctl <command> --help` tells more. The cluster is that of --kubeconfig or\n"
            "KUBECONFIG."
        ),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    groups = root.add_subparsers(title="commands", metavar="<command>", required=True)
    _add_jobs(_group(groups, "job", "Run, list, view, delete, suspend and resume jobs"))
    _add_queues(_group(groups, "queue", "See queues"))
    _add_bus(_group(groups, "bus", "See what the services tell each other"))
    _add_simulate(groups)
    version = _leaf(groups, "version", "Print which vcctl this is", "vcctl version")
    version.set_defaults(needs="nothing")
    options, unknown = root.parse_known_args(argv)
    if unknown:
        # Left to argparse, this would be an error of `vcctl`, which has hardly any flags.
        advice = f"Try `{options.path} --help`."
        raise BadLine(options.path, f"unknown flag or argument: {' '.join(unknown)}\n\n{advice}")
    if options.path == SIMULATE:
        _check_simulate(options)
    return options


def _group(groups: Any, name: str, summary: str) -> Any:
    parser: ArgumentParser = groups.add_parser(
        name, help=summary, description=f"{summary}.", allow_abbrev=False
    )
    return parser.add_subparsers(title="commands", metavar="<command>", required=True)


def _leaf(group: Any, name: str, summary: str, *examples: str) -> ArgumentParser:
    parser: ArgumentParser = group.add_parser(
        name,
        help=summary,
        description=f"{summary}.",
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(path=parser.prog)
    others = parser.add_argument_group("accepted for Volcano's sake, without effect")
    others.add_argument("-v", "--v", metavar="N", help="log level")
    others.add_argument("--vmodule", metavar="RULES", help="log levels of single files")
    others.add_argument("--log-flush-frequency", metavar="TIME", help="how often logs are written")
    return parser


def _asking(group: Any, name: str, run: Any, summary: str, *examples: str) -> ArgumentParser:
    """A command that talks to the API server."""
    parser = _leaf(group, name, summary, *examples)
    parser.set_defaults(needs="kube", run=run)
    server = parser.add_argument_group("which cluster")
    server.add_argument(
        "-k", "--kubeconfig", default="", metavar="FILE", help="its kubeconfig (or KUBECONFIG)"
    )
    server.add_argument(
        "-s", "--master", default="", metavar="URL", help="its API server, if another one"
    )
    return parser


def _add_namespace(parser: ArgumentParser) -> None:
    # None tells that it was not given: a file may then say it.
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help=f"the job's namespace (default: {jobs.DEFAULT_NAMESPACE})",
    )


def _add_name(parser: ArgumentParser) -> None:
    parser.add_argument("-N", "--name", default="", metavar="JOB", help="the job's name")


def _add_jobs(group: Any) -> None:
    run = _asking(
        *(group, "run", jobs.run, "Submit a job, from a file or made from flags"),
        "vcctl job run -f examples/mpi-job.yaml",
        "vcctl job run -f job.yaml -n team-a",
        "vcctl job run -N hello -i busybox -r 3 -m 3 -R cpu=500m,memory=64Mi",
    )
    _add_namespace(run)
    _add_name(run)
    add = run.add_argument
    add("-f", "--filename", default="", metavar="FILE", help="a YAML file with one Job")
    add("-i", "--image", default="busybox", help="image of the container (default: %(default)s)")
    add("-r", "--replicas", type=int, default=1, help="number of pods (default: %(default)s)")
    add("-m", "--min", type=int, default=1, help="pods that must fit at once (default: 1)")
    add("-R", "--requests", default=_RESOURCES, help="requests of a pod (default: %(default)s)")
    add("-L", "--limits", default=_RESOURCES, help="limits of a pod (default: %(default)s)")
    add("-S", "--scheduler", default="volcano", help="scheduler's name (default: %(default)s)")

    listing = _asking(
        *(group, "list", jobs.list_all, "List jobs, one per line"),
        "vcctl job list",
        "vcctl job list -n team-a -q research",
        "vcctl job list --all-namespaces --selector mpi",
    )
    _add_namespace(listing)
    add = listing.add_argument
    add("--all-namespaces", action="store_true", help="the jobs of all namespaces")
    add("-q", "--queue", default="", help="only those in this queue")
    add("-S", "--scheduler", default="", help="only those of this scheduler")
    add("--selector", default="", metavar="TEXT", help="only those with this text in their name")

    for name, command, summary in (
        ("view", jobs.view, "Show all about one job, with its events"),
        ("delete", jobs.delete, "Delete a job and all its pods"),
        ("suspend", jobs.suspend, "Abort a job: its pods go, the job stays and can be resumed"),
        ("resume", jobs.resume, "Let a suspended job run again"),
    ):
        example = f"vcctl job {name} -N hello-mpi"
        one = _asking(group, name, command, summary, example, f"{example} -n team-a")
        _add_namespace(one)
        _add_name(one)


def _add_queues(group: Any) -> None:
    summary = "List queues, with the number of PodGroups in each phase"
    _asking(group, "list", queues.list_all, summary, "vcctl queue list")


def _add_bus(group: Any) -> None:
    tail = _leaf(
        *(group, "tail", "Print facts, intents and outcomes as JSON lines, until Ctrl-C"),
        "vcctl bus tail --url nats://127.0.0.1:4222 --password-file passwords/operator",
        "vcctl bus tail --intents --outcomes",
        "vcctl bus tail --facts --replay | jq 'select(.fields.kind == \"vcjob\")'",
    )
    tail.set_defaults(needs="bus", run=bus_tail.tail)
    add = tail.add_argument
    add("--url", default=BusSettings().url, help="the NATS server (default: %(default)s)")
    add("--user", default=OPERATOR, help="who to be there (default: %(default)s)")
    add(
        *("--password-file", "-p"),
        default="",
        metavar="FILE",
        help="holds the user's password; without it, nobody is logged in",
    )
    add("--facts", action="store_true", help="what is known about objects")
    add("--intents", action="store_true", help="what services want done")
    add("--outcomes", action="store_true", help="how that ended")
    add("--replay", action="store_true", help="first the facts and outcomes that are kept")


def _add_simulate(groups: Any) -> None:
    simulate = _leaf(
        *(groups, "simulate", "Show what would become of these objects, without any cluster"),
        "vcctl simulate -f cluster.yaml -f job.yaml",
        "vcctl simulate -f cluster/ --conf volcano-scheduler.conf -o json",
        "kubectl get nodes,queues,podgroups,pods -A -o json | vcctl simulate -f - -f job.yaml",
        "vcctl simulate --trace examples/traces/mixed-day.yaml --plot day.png",
        "vcctl simulate -f cluster.yaml --trace jobs.csv -o json",
    )
    simulate.set_defaults(needs="simulation")
    simulate.description = _SIMULATE
    add = simulate.add_argument
    add(
        *("-f", "--filename"),
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="objects as YAML or JSON: files, folders, or - for standard input; may be repeated",
    )
    add(
        "--conf",
        default="",
        metavar="FILE",
        help="the scheduler's configuration: Volcano's file, or a ConfigMap with it "
        "(default: what Volcano's chart installs)",
    )
    until = simulate.add_mutually_exclusive_group()
    until.add_argument(
        "--until-idle",
        action="store_true",
        help="go on until nothing changes any more: evicted pods end, those that waited for "
        "them start (default)",
    )
    until.add_argument(
        "--cycles",
        type=_at_least_one,
        metavar="N",
        help="so many cycles of the scheduler and nothing after them: evicted pods are still there",
    )
    _add_trace(simulate)
    add(
        *("-o", "--output"),
        choices=("table", "json", "yaml"),
        default="table",
        help="how to print the result (default: %(default)s)",
    )


def _add_trace(simulate: ArgumentParser) -> None:
    trace = simulate.add_argument_group("a trace on virtual time")
    trace.add_argument(
        "--trace",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="jobs that come and end: YAML or JSON, or CSV with a header; several files add up",
    )
    trace.add_argument(
        "--plot",
        default="",
        metavar="FILE",
        help="draw who had how much of the cluster, and who waited: .png, .svg or .pdf",
    )
    trace.add_argument(
        "--until",
        type=_time,
        metavar="TIME",
        help="stop after so much virtual time, such as 36h (default: when all jobs are over)",
    )


def _check_simulate(options: Namespace) -> None:
    if not options.filename and not options.trace:
        raise BadLine(SIMULATE, "name a file with objects (-f) or a trace (--trace)")
    for flag in ("plot", "until"):
        if getattr(options, flag) and not options.trace:
            raise BadLine(SIMULATE, f"--{flag} goes with --trace, which is not there")
    if options.trace and options.cycles is not None:
        raise BadLine(SIMULATE, "--cycles does not go with --trace: a trace says when it ends")


def _time(text: str) -> float:
    try:
        return parse_duration(text) / SECOND
    except DurationError as fault:
        raise ArgumentTypeError(str(fault)) from fault


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is no number of cycles, expected 1 or more")
    return int(text)
