"""What is said of each pod of a gang: bound, not bound, or that nobody can know it yet."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from stromboli.contracts.intents import BindGang, PodBinding
from stromboli.contracts.outcomes import PodBound, Reason
from stromboli.gateway import gangs
from stromboli.gateway.deadlines import NoLongerLeading, Permit
from stromboli.gateway.gangs import GangBinder
from stromboli.gateway.placing import Places, PodPlace
from stromboli.gateway.refusals import Refusal
from stromboli.kube.client import KubeClient
from stromboli.runtime.clock import SystemClock
from stromboli.testkit.clock import ManualClock
from stromboli.testkit.scripted_objects import Answer, Scripted, an_object, scripted, status
from stromboli.testkit.waiting import eventually

NOBODY: Any = None
"""In place of the API server's client: a gang that is not ours to bind asks it for nothing."""

SHORT_S = 0.4
"""Long enough for a few tries; the pauses between them grow from 50 ms."""


def part(*names: str, number: int = 0) -> BindGang:
    return BindGang(
        id=f"gang-{number}",
        key="vcjob/ns/job",
        service="scheduler",
        namespace="ns",
        name="group",
        attempt="1",
        part=number,
        binds=tuple(PodBinding(name, f"uid-{name}", "n1") for name in names),
    )


def cut() -> Answer:
    return None


def done() -> Answer:
    return 201, {"kind": "Status", "status": "Success"}


@dataclass
class Binding:
    """A binder whose watch has shown the node n1 and the pods a, b and c, on no node."""

    api: Scripted
    uncertain: set[str] = field(default_factory=set[str])
    binder: GangBinder = field(init=False)
    places: Places = field(init=False)

    def __post_init__(self) -> None:
        self.places = Places(nodes={"n1"})
        for name in ("a", "b", "c"):
            self.exists(name)
        self.binder = GangBinder(
            self.api.kube,
            self.places,
            random.Random(1),
            SystemClock(),
            lambda uid: uid in self.uncertain,
        )

    def exists(self, name: str, node: str = "", uid: str = "", version: int = 1) -> None:
        """On the API server, and shown by the watch."""
        pod = an_object(name, uid, node=node, version=version)
        self.api.put("pods", pod)
        self.places.seen("pod", ("ns", name), msgspec.json.encode(pod))

    def on_bind(self, name: str, *answers: Any, executed_as: int = 0) -> None:
        """These answers to its bind; with a version, it is executed all the same."""

        def react(answer: Answer) -> Answer:
            if executed_as:
                self.api.place(name, "n1", executed_as)
            return answer

        reactions = [lambda answer=answer: react(answer) for answer in answers]
        self.api.on(f"POST pods/{name}/binding", *reactions)

    def permit(self, seconds: float = SHORT_S, *, may_have_begun: bool = False) -> Permit:
        clock = SystemClock()
        return Permit(clock, clock.monotonic() + seconds, lambda: True, may_have_begun)

    async def bind(self, *names: str, permit: Permit | None = None) -> dict[str, PodBound]:
        ((_, pods, self.version),) = await self.binder.bind([part(*names)], permit or self.permit())
        return {pod.name: pod for pod in pods}

    version: int = 0
    """Of the last result."""


@pytest.fixture
async def binding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Binding]:
    monkeypatch.setattr(gangs, "_LOOK_S", 0.3)
    monkeypatch.setattr(gangs, "_SHOWN_S", 0.05)
    async with scripted(tmp_path) as api:
        yield Binding(api)


def fate(pod: PodBound) -> str:
    if pod.bound:
        return "already" if pod.already else "bound"
    return "uncertain" if pod.uncertain else str(pod.reason)


# A bind that was sent.


async def test_a_bind_that_was_executed_without_an_answer_is_found_out(binding: Binding):
    binding.on_bind("a", None, executed_as=7)
    pods = await binding.bind("a")

    assert fate(pods["a"]) == "already"
    assert binding.version == 7


async def test_a_bind_without_an_answer_that_does_not_show_is_uncertain(binding: Binding):
    """The API server may execute it up to a minute later."""
    binding.on_bind("a", None)
    pods = await binding.bind("a")

    assert fate(pods["a"]) == "uncertain"
    assert pods["a"].reason is None
    assert "no answer from the API server" in pods["a"].message
    assert binding.version == 0


async def test_a_bind_that_is_neither_answered_nor_can_be_looked_up_is_uncertain(binding: Binding):
    binding.on_bind("a", None)
    binding.api.on("GET pods/a", cut)

    assert fate((await binding.bind("a"))["a"]) == "uncertain"


@pytest.mark.parametrize("code", [500, 503, 504])
async def test_a_servers_error_is_no_answer_to_a_bind(binding: Binding, code: int):
    binding.on_bind("a", status(code, "InternalError"))

    assert fate((await binding.bind("a"))["a"]) == "uncertain"


async def test_an_answer_to_a_second_try_is_as_good_as_to_the_first(binding: Binding):
    binding.on_bind("a", None, done(), executed_as=7)
    pods = await binding.bind("a")

    assert fate(pods["a"]) == "bound"
    assert binding.version == 7


async def test_a_refusal_that_shows_our_own_earlier_bind_is_a_success(binding: Binding):
    binding.on_bind("a", None, status(409, "Conflict"), executed_as=7)
    pods = await binding.bind("a")

    assert fate(pods["a"]) == "already"
    assert binding.version == 7


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (an_object("a", node="n2"), Reason.STALE),
        (an_object("a", "another"), Reason.STALE),
        (an_object("a", deletionTimestamp="2026-01-01T00:00:00Z"), Reason.STALE),
        (None, Reason.NOT_FOUND),
    ],
    ids=["on another node", "another pod", "ending", "gone"],
)
async def test_where_the_pod_is_settles_what_the_earlier_try_left_open(
    binding: Binding, found: dict[str, Any] | None, reason: Reason
):
    binding.on_bind("a", None, status(409, "Conflict"))
    if found is None:
        del binding.api.there["pods/a"]
    else:
        binding.api.put("pods", found)
    pods = await binding.bind("a")

    assert fate(pods["a"]) == reason


async def test_a_refusal_does_not_settle_what_an_earlier_try_may_still_do(binding: Binding):
    binding.on_bind("a", None, status(403, "Forbidden"))

    assert fate((await binding.bind("a"))["a"]) == "uncertain"


async def test_a_refusal_of_the_only_try_is_certain(binding: Binding):
    binding.on_bind("a", status(403, "Forbidden"))

    assert fate((await binding.bind("a"))["a"]) == Reason.FORBIDDEN


async def test_each_pod_has_its_own_fate(binding: Binding):
    binding.on_bind("a", done(), executed_as=5)
    binding.on_bind("b", None)
    binding.on_bind("c", status(403, "Forbidden"))
    pods = await binding.bind("a", "b", "c")

    assert [fate(pods[name]) for name in "abc"] == ["bound", "uncertain", Reason.FORBIDDEN]
    assert binding.version == 5


async def test_what_an_earlier_intent_left_open_stays_open_after_a_refusal(binding: Binding):
    binding.uncertain.add("uid-a")
    binding.on_bind("a", status(403, "Forbidden"))

    assert fate((await binding.bind("a"))["a"]) == "uncertain"


async def test_asking_again_for_an_uncertain_pod_binds_it(binding: Binding):
    binding.uncertain.add("uid-a")
    binding.on_bind("a", done(), executed_as=9)

    assert fate((await binding.bind("a"))["a"]) == "bound"
    assert binding.version == 9


# The version.


async def test_a_bind_is_reported_with_the_version_that_the_watch_has_shown(
    binding: Binding, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gangs, "_SHOWN_S", 10)
    binding.on_bind("a", done())
    work = asyncio.create_task(binding.bind("a", permit=binding.permit(10)))
    await eventually(lambda: binding.api.count("binding") == 1, describe="the bind")
    binding.exists("a", "n1", version=12)

    assert fate((await work)["a"]) == "bound"
    assert binding.version == 12
    assert binding.api.count("GET /api/v1/namespaces/ns/pods/a") == 0


async def test_the_highest_version_of_a_part_is_reported(binding: Binding):
    binding.on_bind("a", done(), executed_as=9)
    binding.on_bind("b", done(), executed_as=11)
    await binding.bind("a", "b")

    assert binding.version == 11


async def test_a_bind_of_which_nobody_can_say_where_it_shows_is_uncertain(binding: Binding):
    binding.on_bind("a", done())

    assert fate((await binding.bind("a"))["a"]) == "uncertain"
    assert binding.version == 0


# The check.


async def test_a_failing_check_binds_nothing_and_says_of_each_pod_what_is_so(binding: Binding):
    binding.exists("a", uid="replaced")
    binding.exists("b", "n1", version=4)
    pods = await binding.bind("a", "b", "c")

    assert [fate(pods[name]) for name in "abc"] == [Reason.STALE, "already", Reason.STALE]
    assert pods["a"].message == "pod a is replaced, not uid-a"
    assert pods["c"].message == "the gang was not bound: pod a is replaced, not uid-a"
    assert binding.version == 4
    assert binding.api.count("binding") == 0


async def test_a_failing_check_denies_nothing_that_a_dead_gateway_may_have_begun(binding: Binding):
    """What it asked for shows, or may show later; our own watch may not be there yet."""
    binding.exists("a", uid="replaced")
    binding.api.place("b", "n1", 8)
    pods = await binding.bind("a", "b", "c", permit=binding.permit(may_have_begun=True))

    assert [fate(pods[name]) for name in "abc"] == [Reason.STALE, "already", "uncertain"]
    assert binding.version == 8
    assert binding.api.count("binding") == 0


async def test_a_failing_check_denies_no_pod_that_is_still_uncertain(binding: Binding):
    binding.exists("a", uid="replaced")
    binding.uncertain.add("uid-b")
    pods = await binding.bind("a", "b", "c")

    assert [fate(pods[name]) for name in "abc"] == [Reason.STALE, "uncertain", Reason.STALE]


async def test_a_check_for_which_there_is_no_time_left_is_a_refusal(binding: Binding):
    binding.places.nodes.clear()
    pods = await binding.bind("a", permit=binding.permit(-1))

    assert fate(pods["a"]) == Reason.EXPIRED
    assert binding.api.asked == []


async def test_a_check_that_is_not_answered_is_a_refusal(binding: Binding):
    binding.places.nodes.clear()
    binding.api.on("GET nodes/n1", lambda: status(503, "ServiceUnavailable"))
    pods = await binding.bind("a")

    assert fate(pods["a"]) == Reason.EXPIRED
    assert binding.api.count("binding") == 0


async def test_a_check_that_the_api_server_does_not_allow_is_a_refusal(binding: Binding):
    """Nothing was begun, so nothing is uncertain."""
    binding.places.nodes.clear()
    binding.api.on("GET nodes/n1", lambda: status(403, "Forbidden"))
    pods = await binding.bind("a", "b")

    assert [fate(pods[name]) for name in "ab"] == [Reason.FORBIDDEN, Reason.FORBIDDEN]


async def test_a_bind_for_which_there_is_no_time_left_is_a_refusal(binding: Binding):
    pods = await binding.bind("a", permit=binding.permit(-1))

    assert fate(pods["a"]) == Reason.EXPIRED
    assert binding.api.count("binding") == 0


async def test_a_bind_without_time_that_may_have_been_begun_is_looked_up(binding: Binding):
    binding.api.place("a", "n1", 3)
    late = binding.permit(-1, may_have_begun=True)
    pods = await binding.bind("a", "b", permit=late)

    assert [fate(pods[name]) for name in "ab"] == ["already", "uncertain"]
    assert binding.api.count("binding") == 0


async def test_parts_that_are_missing_deny_nothing_that_was_bound_before(binding: Binding):
    binding.exists("a", "n1", version=4)
    late = Refusal(Reason.EXPIRED, "only 1 of 2 parts of the gang arrived in time")
    results = await binding.binder.not_bound([part("a", "b")], binding.permit(), late)

    ((_, pods, version),) = results
    assert [fate(pod) for pod in pods] == ["already", Reason.EXPIRED]
    assert version == 4


async def test_a_lease_lost_between_the_check_and_the_binds_is_told_as_that():
    """The intake leaves the gang to the next leader; it would put aside what it does not know."""
    names = ("a", "b", "c")
    places = Places(
        pods={("ns", name): PodPlace(f"uid-{name}", "", ending=False, version=1) for name in names},
        nodes={"n1"},
    )
    clock = ManualClock()
    binder = GangBinder(
        cast("KubeClient", NOBODY), places, random.Random(1), clock, lambda _uid: False
    )
    permit = Permit(clock, 15.0, is_leading=lambda: False)

    with pytest.raises(NoLongerLeading):
        await binder.bind([part(*names)], permit)
