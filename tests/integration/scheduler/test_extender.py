"""An extender on a real web server: what it is asked, and what comes of what it answers."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from stromboli.scheduler.extending import HttpRemote
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadFile, Unconnected
from stromboli.testkit.scheduling_scenario import objects_of
from stromboli.testkit.simulation import Simulation

Answer = Callable[[dict[str, Any]], Any]

NODES = {"n1": {"cpu": 4, "memory": "8G"}, "n2": {"cpu": 4, "memory": "8G"}}
PENDING = {"g": {"min": 1, "pods": {"p": {}}}}


class Server:
    """Answers by verb; notes what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.url = ""

    def bodies(self, verb: str) -> list[dict[str, Any]]:
        return [body for asked, body in self.asked if asked == verb]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = request.match_info["verb"]
        body = msgspec.json.decode(await request.read())
        self.asked.append((verb, body))
        answer = self.answers.get(verb, lambda _: {})(body)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.Response(body=msgspec.json.encode(answer))


@contextlib.asynccontextmanager
async def serving() -> AsyncGenerator[Server]:
    server = Server()
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/base/{verb}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}/base/"
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    async with serving() as running:
        yield running


def conf(
    server: Server, *, actions: str = "enqueue, allocate", tiers: Any = None, **arguments: Any
) -> str:
    extender = {
        "name": "extender",
        "arguments": {
            "extender.urlPrefix": server.url,
            **{f"extender.{name}": value for name, value in arguments.items()},
        },
    }
    plugins = [*(tiers or [{"name": "gang"}, {"name": "predicates"}]), extender]
    return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": plugins}]})


async def decided(text: str, **scenario: Any) -> Simulation:
    """What a core with this configuration makes of a small cluster, in a thread of its own."""
    async with HttpRemote() as remote:
        simulation = Simulation(SchedulerCore(read_conf(text), remote=remote), lingering=True)
        for item in objects_of({"nodes": NODES, "groups": PENDING, **scenario}):
            simulation.put(item)
        await asyncio.to_thread(simulation.run)
    return simulation


def bound(simulation: Simulation) -> dict[str, str]:
    return {name: node for (_, name), node in simulation.binds.items()}


def sentence(simulation: Simulation, group: str = "g") -> str:
    core = simulation.core
    assert isinstance(core, SchedulerCore)
    return core.explanations["test", group].text


# Nodes.


async def test_a_node_that_the_extender_speaks_against_is_not_taken(server: Server):
    server.answers["predicate"] = lambda body: (
        {"status": "too warm", "code": 2} if body["node"]["Name"] == "n1" else {}
    )

    simulation = await decided(conf(server, predicateVerb="predicate"))

    assert bound(simulation) == {"p": "n2"}


async def test_the_questions_have_the_fields_of_volcano(server: Server):
    await decided(conf(server, predicateVerb="predicate"))

    asked = server.bodies("predicate")[0]
    assert asked["task"]["Name"] == "p"
    assert asked["task"]["Job"] == "test/g"
    assert asked["task"]["Status"] == 1
    assert asked["task"]["Resreq"]["MilliCPU"] == 1000
    assert asked["task"]["Resreq"]["Memory"] == 10**9
    assert asked["task"]["Pod"]["metadata"]["namespace"] == "test"
    assert asked["node"]["Name"] == "n1"
    assert asked["node"]["Allocatable"]["MilliCPU"] == 4000
    assert asked["node"]["Idle"]["Memory"] == 8 * 10**9


async def test_a_job_that_is_refused_everywhere_says_what_the_extender_said(server: Server):
    server.answers["predicate"] = lambda _: {"status": "no licence"}

    simulation = await decided(conf(server, predicateVerb="predicate"))

    assert bound(simulation) == {}
    assert "2 node(s) were refused by the extender: no licence" in sentence(simulation)


async def test_it_is_asked_again_after_a_while_whatever_happens(server: Server):
    server.answers["predicate"] = lambda _: {"status": "not yet"}
    async with HttpRemote() as remote:
        core = SchedulerCore(read_conf(conf(server, predicateVerb="predicate")), remote=remote)
        simulation = Simulation(core)
        for item in objects_of({"nodes": NODES, "groups": PENDING}):
            simulation.put(item)
        await asyncio.to_thread(simulation.run)
        server.answers["predicate"] = lambda _: {}
        await asyncio.to_thread(simulation.advance, 6)

    assert bound(simulation) == {"p": "n1"}


async def test_equal_pods_are_asked_about_once_per_node_and_only_where_others_let_them(
    server: Server,
):
    nodes = {**NODES, "n3": {"cpu": 4, "memory": "8G", "unschedulable": True}}
    groups = {"g": {"min": 6, "pods": {"p": {"count": 6}}}}

    simulation = await decided(conf(server, predicateVerb="predicate"), nodes=nodes, groups=groups)

    assert len(bound(simulation)) == 6
    assert [body["node"]["Name"] for body in server.bodies("predicate")] == ["n1", "n2"]


async def test_the_best_node_is_the_extenders(server: Server):
    server.answers["prioritize"] = lambda _: {"nodeScore": {"n1": 1, "n2": 7.5}}

    simulation = await decided(conf(server, prioritizeVerb="prioritize"))

    assert bound(simulation) == {"p": "n2"}
    (asked,) = server.bodies("prioritize")
    assert [node["Name"] for node in asked["nodes"]] == ["n1", "n2"]


async def test_only_pods_with_managed_resources_are_asked_about(server: Server):
    server.answers["predicate"] = lambda _: {"status": "never"}
    text = conf(server, predicateVerb="predicate", managedResources=["example.com/gpu"])
    nodes = {"n1": {"cpu": 4, "memory": "8G", "example.com/gpu": 1}}
    groups = {**PENDING, "h": {"pods": {"q": {"asks": {"example.com/gpu": 1}}}}}

    simulation = await decided(text, nodes=nodes, groups=groups)

    assert bound(simulation) == {"p": "n1"}
    assert {body["task"]["Name"] for body in server.bodies("predicate")} == {"q"}


# Jobs and queues.


@pytest.mark.parametrize(("status", "admitted"), [(1, True), (0, True), (-1, False)])
async def test_jobs_are_admitted_by_its_vote(server: Server, status: int, admitted: bool):
    server.answers["enqueueable"] = lambda _: {"status": status}
    groups = {"g": {"min": 1, "phase": "Pending", "needs": {"cpu": 1}, "pods": {"p": {}}}}

    simulation = await decided(
        conf(server, jobEnqueueableVerb="enqueueable", jobEnqueuedVerb="enqueued"), groups=groups
    )

    assert bool(bound(simulation)) is admitted
    assert len(server.bodies("enqueued")) == admitted
    assert server.bodies("enqueueable")[0]["job"]["MinAvailable"] == 1


async def test_a_queue_that_it_calls_overused_gets_nothing(server: Server):
    server.answers["overused"] = lambda body: {"overused": body["queue"]["Name"] == "greedy"}
    groups = {
        "g": {"queue": "greedy", "pods": {"p": {}}},
        "h": {"queue": "modest", "pods": {"q": {}}},
    }

    simulation = await decided(
        conf(server, queueOverusedVerb="overused"),
        groups=groups,
        queues={"greedy": {}, "modest": {}},
    )

    assert bound(simulation) == {"q": "n1"}


@pytest.mark.parametrize("ready", [True, False])
async def test_a_job_starts_when_it_says_ready(server: Server, ready: bool):
    server.answers["ready"] = lambda _: {"status": ready}

    simulation = await decided(conf(server, jobReadyVerb="ready"))

    assert bool(bound(simulation)) is ready


# Victims.

FULL = {
    "nodes": {"n1": {"cpu": 2, "memory": "8G"}},
    "classes": {"low": 10, "high": 1000},
    "groups": {
        "old": {
            "min": 0,
            "class": "low",
            "phase": "Running",
            "pods": {"a": {"node": "n1"}, "b": {"node": "n1"}},
        },
        "g": {"min": 1, "class": "high", "pods": {"p": {}}},
    },
}
PREEMPTING = [{"name": "priority"}, {"name": "gang"}, {"name": "predicates"}]


@pytest.mark.parametrize(
    ("answer", "evicted"),
    [
        ({"status": 1, "victims": [{"UID": "test-a"}]}, ["a"]),
        ({"status": 1, "victims": []}, []),
        ({"status": 1, "victims": None}, []),
        ({"status": 0}, ["b"]),
    ],
)
async def test_victims_are_those_that_it_names(server: Server, answer: Any, evicted: list[str]):
    server.answers["preemptable"] = lambda _: answer

    simulation = await decided(
        conf(
            server,
            actions="allocate, preempt",
            tiers=PREEMPTING,
            preemptableVerb="preemptable",
        ),
        **FULL,
    )

    assert [name for _, name in simulation.evictions] == evicted
    asked = server.bodies("preemptable")[0]
    assert asked["evictor"]["Name"] == "p"
    assert {task["Name"] for task in asked["evictees"]} == {"a", "b"}


async def test_other_queues_are_asked_by_the_other_verb(server: Server):
    server.answers["reclaimable"] = lambda _: {"status": 1, "victims": [{"UID": "test-b"}]}
    groups = {
        "old": {
            "min": 0,
            "queue": "one",
            "phase": "Running",
            "pods": {"a": {"node": "n1"}, "b": {"node": "n1"}},
        },
        "g": {"min": 1, "queue": "two", "pods": {"p": {}}},
    }
    tiers = [{"name": "gang"}, {"name": "proportion"}, {"name": "predicates"}]

    simulation = await decided(
        conf(server, actions="allocate, reclaim", tiers=tiers, reclaimableVerb="reclaimable"),
        nodes=FULL["nodes"],
        groups=groups,
        queues={"one": {}, "two": {}},
    )

    assert [name for _, name in simulation.evictions] == ["b"]


# What it is told.


async def test_it_hears_of_cycles_and_placements(server: Server):
    await decided(
        conf(
            server,
            onSessionOpenVerb="open",
            onSessionCloseVerb="close",
            allocateFuncVerb="allocate",
            deallocateFuncVerb="deallocate",
        )
    )

    opened = server.bodies("open")[0]
    assert set(opened["Nodes"]) == {"n1", "n2"}
    assert opened["Jobs"]["test/g"]["Tasks"]["test-p"]["Name"] == "p"
    assert opened["Queues"]["default"]["Weight"] == 1
    assert opened["NodeList"] == ["n1", "n2"]
    assert [body["task"]["NodeName"] for body in server.bodies("allocate")] == ["n1"]
    assert server.bodies("deallocate") == []
    verbs = [verb for verb, _ in server.asked]
    assert verbs.index("open") < verbs.index("allocate") < verbs.index("close")


async def test_one_that_does_not_hear_that_a_cycle_begins_is_left_out_of_it(server: Server):
    server.answers["open"] = lambda _: web.Response(status=500)
    server.answers["predicate"] = lambda _: {"status": "no"}

    simulation = await decided(conf(server, onSessionOpenVerb="open", predicateVerb="predicate"))

    assert bound(simulation) == {"p": "n1"}
    assert server.bodies("predicate") == []


# Failures.


async def _late(_: object) -> dict[str, Any]:
    await asyncio.sleep(30)
    return {}


FAILURES: dict[str, tuple[Answer, str]] = {
    "an error": (lambda _: web.Response(status=500), "it answered with status 500"),
    "a redirect": (
        lambda _: web.Response(status=302, headers={"Location": "/elsewhere"}),
        "it answered with status 302",
    ),
    "garbage": (lambda _: web.Response(body=b"\x00garbage"), "the answer can't be read"),
    "another type": (lambda _: {"status": 3}, "the answer can't be read"),
    "a deep hole": (lambda _: web.Response(body=b"[" * 100_000), "the answer can't be read"),
    "20 MB": (
        lambda _: web.Response(body=b'{"status": "' + b"a" * 20 * 2**20 + b'"}'),
        "the answer is longer than 10485760 bytes",
    ),
    "silence": (_late, "it did not answer within 0.2 s"),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("ignorable", [False, True])
async def test_a_failing_extender_says_no_unless_it_is_ignorable(
    server: Server, failure: str, ignorable: bool
):
    answer, problem = FAILURES[failure]
    server.answers["predicate"] = answer
    timeout = "200ms" if failure == "silence" else "20s"

    simulation = await decided(
        conf(server, predicateVerb="predicate", ignorable=ignorable, httpTimeout=timeout)
    )

    if ignorable:
        assert bound(simulation) == {"p": "n1"}
    else:
        assert bound(simulation) == {}
        assert problem in sentence(simulation)


async def test_nobody_there_is_a_failure_too(server: Server):
    server.url = "http://127.0.0.1:1/"
    text = conf(server, predicateVerb="predicate")

    simulation = await decided(text)

    assert bound(simulation) == {}
    assert "refused by the extender" in sentence(simulation)


@pytest.mark.parametrize(
    ("verb", "ignorable", "starts"),
    [
        ("jobEnqueueableVerb", False, False),
        ("jobEnqueueableVerb", True, True),
        ("queueOverusedVerb", False, False),
        ("queueOverusedVerb", True, True),
        ("jobReadyVerb", False, False),
        ("jobReadyVerb", True, True),
        ("prioritizeVerb", False, True),
        ("allocateFuncVerb", False, True),
    ],
)
async def test_without_an_answer_jobs_wait_unless_it_is_ignorable(
    server: Server, verb: str, ignorable: bool, starts: bool
):
    server.answers["ask"] = lambda _: web.Response(status=503)
    groups = {"g": {"min": 1, "phase": "Pending", "needs": {"cpu": 1}, "pods": {"p": {}}}}

    simulation = await decided(conf(server, **{verb: "ask"}, ignorable=ignorable), groups=groups)

    assert bool(bound(simulation)) is starts
    assert server.bodies("ask")


@pytest.mark.parametrize("ignorable", [False, True])
async def test_without_an_answer_nobody_is_evicted_on_its_word(server: Server, ignorable: bool):
    server.answers["preemptable"] = lambda _: web.Response(status=500)

    simulation = await decided(
        conf(
            server,
            actions="allocate, preempt",
            tiers=PREEMPTING,
            preemptableVerb="preemptable",
            ignorable=ignorable,
        ),
        **FULL,
    )

    assert [name for _, name in simulation.evictions] == (["b"] if ignorable else [])


async def test_a_cycle_does_not_wait_longer_than_its_budget(server: Server):
    """A hundred nodes that each time out would take many times what a cycle may."""
    server.answers["predicate"] = _late
    nodes = {f"n{number:03}": {"cpu": 4, "memory": "8G"} for number in range(100)}
    text = conf(server, predicateVerb="predicate", httpTimeout="2s")
    async with HttpRemote() as remote:
        budgets: list[float] = []
        begin = remote.begin

        def short(budget_s: float) -> None:
            budgets.append(budget_s)
            begin(0.3)

        remote.begin = short  # the same, but for how long a test may take
        simulation = Simulation(SchedulerCore(read_conf(text), remote=remote))
        for item in objects_of({"nodes": nodes, "groups": PENDING}):
            simulation.put(item)
        async with asyncio.timeout(20):
            await asyncio.to_thread(simulation.run)

    assert budgets[0] == 10
    assert len(server.bodies("predicate")) <= 16 * len(budgets)
    assert "used up its time" in sentence(simulation)


# Without a connection.


def test_a_core_without_a_connection_refuses_the_plugin_and_says_why():
    text = conf(Server(), predicateVerb="predicate").replace("''", "http://127.0.0.1:8080")

    with pytest.raises(Unconnected, match="asks another server, and there is no connection"):
        SchedulerCore(read_conf(text))


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("urlPrefix", "ftp://there", "expected an address such as http"),
        ("urlPrefix", "", "expected an address such as http"),
        ("httpTimeout", "soon", "expected a duration such as 100ms"),
        ("httpTimeout", "0s", "expected a duration such as 100ms"),
        ("ignorable", "perhaps", "expected true or false"),
        ("managedResources", "cpu", "managedResources"),
        ("predicatesVerb", "x", "did you mean 'extender.predicateVerb'"),
    ],
)
def test_wrong_arguments_are_refused_with_a_suggestion(argument: str, value: str, says: str):
    server = Server()
    server.url = "http://127.0.0.1:8080"

    with pytest.raises(BadFile, match=says):
        read_conf(conf(server, **{"jobReadyVerb": "ready", argument: value}))
