"""No node is ever over-committed and nothing is lost, whatever the bus and the API server do.

Real gateways and schedulers run on virtual time, on a bus and an API server that lose, delay,
double and reorder, with clocks that are an hour apart. They are killed and frozen at every point.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest
import structlog
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stromboli.testkit.chaos import live_through, live_through_a_bind
from stromboli.testkit.effort import examples
from stromboli.testkit.promise_machine import (
    GANG_BIND_TIMEOUT_S,
    GATEWAY,
    SCHEDULER,
    Machine,
    Member,
    crash_points,
    reaching,
)
from stromboli.testkit.virtual_time import run_virtually

_HOUR_S = 3600.0


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """An example logs hundreds of lines; a failure says by itself what was seen."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


# A number says nothing when it is made smaller.
_NOT_SMALLER = (Phase.explicit, Phase.reuse, Phase.generate)
_numbers = st.integers(min_value=0, max_value=2**63)


@settings(max_examples=examples(50), phases=_NOT_SMALLER)
@given(_numbers)
def test_nothing_is_over_committed_half_bound_or_lost(number: int) -> None:
    live_through(number)


@settings(max_examples=examples(50), phases=_NOT_SMALLER)
@given(_numbers)
def test_a_bind_in_doubt_keeps_its_room_and_comes_to_an_end(number: int) -> None:
    live_through_a_bind(number)


def _play(
    scenario: Callable[[Machine], Awaitable[None]],
    *,
    cpus: tuple[int, ...] = (1,),
    clocks_ahead_s: dict[str, float] | None = None,
) -> None:
    """Let a scenario happen to a machine that has begun; then it has to come to rest."""

    async def life() -> None:
        machine = Machine(Random(0), cpus=cpus, clocks_ahead_s=clocks_ahead_s)
        async with machine.running():
            await machine.until(
                lambda: machine.leader(GATEWAY) and machine.leader(SCHEDULER), what="leaders"
            )
            await scenario(machine)
            machine.end_faults()
            await machine.come_to_rest()
            machine.check()

    run_virtually(life())


def _is_bind(subject: str) -> bool:
    return subject.endswith(".scheduler.bind.pod")


def _is_bind_call(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def test_a_bind_whose_acknowledgement_was_lost_keeps_its_room() -> None:
    """It is stored, and will be applied; whoever asked must not give its room to another."""
    lost: list[str] = []

    def is_lost(subject: str) -> bool:
        if _is_bind(subject) and not lost:
            lost.append(subject)
            return True
        return False

    slow: list[str] = []

    def slow_s(method: str, path: str) -> float:
        if _is_bind_call(method, path) and not slow:
            slow.append(path)
            return 8.0
        return 0.0

    async def scenario(machine: Machine) -> None:
        machine.bus.is_unanswered, machine.cluster.slow_s = is_lost, slow_s
        machine.world.want("x", 1)
        await machine.until(lambda: lost and slow, what="a bind that is lost and slow")
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(20)

    _play(scenario)


def test_a_bind_that_is_executed_long_after_it_was_given_up_finds_its_room() -> None:
    """The API server answers with a timeout and binds all the same, half a minute later."""
    began: list[float] = []

    def slow_s(method: str, path: str) -> float:
        if not _is_bind_call(method, path) or "/x-0/" not in path:
            return 0.0
        now = asyncio.get_running_loop().time()
        began.append(now)
        return max(0.0, began[0] + 35 - now)

    async def scenario(machine: Machine) -> None:
        machine.cluster.slow_s = slow_s
        machine.world.want("x", 1)
        await machine.until(lambda: began, what="a call")
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(60)

    _play(scenario)


@pytest.mark.parametrize("gateway_ahead_s", [-_HOUR_S, _HOUR_S])
def test_clocks_an_hour_apart_change_nothing(gateway_ahead_s: float) -> None:
    """A bind waits in a queue for half a minute. Nobody may call it late by a clock of its own."""
    undelivered: list[str] = []

    def is_undelivered(subject: str) -> bool:
        if _is_bind(subject) and not undelivered:
            undelivered.append(subject)
            return True
        return False

    async def scenario(machine: Machine) -> None:
        machine.world.want("first", 1)
        await machine.until(lambda: machine.world.bound("first"), what="a bind")
        machine.world.drop("first")
        machine.bus.is_undelivered = is_undelivered
        machine.world.want("x", 1)
        await machine.until(lambda: undelivered, what="a bind that is not delivered")
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(60)

    _play(scenario, clocks_ahead_s={GATEWAY: gateway_ahead_s})


@pytest.mark.parametrize("point", crash_points())
@pytest.mark.parametrize("time", [1, 2])
def test_what_a_gateway_had_begun_is_known_after_it_died_with_the_scheduler(
    point: str, time: int
) -> None:
    async def scenario(machine: Machine) -> None:
        dead: list[Member] = []

        def both_die(member: Member) -> None:
            for one in (member, machine.leader(SCHEDULER)):
                if one is not None:
                    one.kill()
                    dead.append(one)

        machine.world.want("low", 1)
        await machine.until(lambda: machine.world.bound("low"), what="a bind")
        with reaching(point, both_die, time=time):
            machine.world.want("x", 2)
            await asyncio.sleep(0.5)
            machine.world.want("y", 2, priority="high")
            await asyncio.sleep(3)
        for member in dead:
            member.start()
        await asyncio.sleep(5)

    _play(scenario, cpus=(2, 1))


@pytest.mark.parametrize("point", crash_points())
def test_a_gateway_that_wakes_after_its_successor_has_answered_changes_nothing(point: str) -> None:
    async def scenario(machine: Machine) -> None:
        frozen: list[Member] = []

        def freezes(member: Member) -> None:
            member.process.freeze()
            frozen.append(member)

        with reaching(point, freezes):
            machine.world.want("x", 2)
            await asyncio.sleep(10)
            machine.world.want("y", 2, priority="high")
            await asyncio.sleep(10)
        for member in frozen:
            member.process.thaw()
        await asyncio.sleep(10)

    _play(scenario, cpus=(2, 1))


def _zombie(machine: Machine, *, executed_after_s: float, refused_for_s: float) -> list[float]:
    """The first call to bind x is executed late, and the others are turned away for a while."""
    began: list[float] = []
    loop = asyncio.get_running_loop()

    def is_meant(method: str, path: str) -> bool:
        return _is_bind_call(method, path) and "/x-0/" in path

    def slow_s(method: str, path: str) -> float:
        if not is_meant(method, path) or began:
            return 0.0
        began.append(loop.time())
        return executed_after_s

    def is_refused(method: str, path: str) -> bool:
        return bool(began) and is_meant(method, path) and loop.time() < began[0] + refused_for_s

    machine.cluster.slow_s, machine.cluster.is_refused = slow_s, is_refused
    return began


@pytest.mark.parametrize("gateways_are_away_s", [0, 8])
def test_the_next_gateway_and_scheduler_know_what_may_still_be_executed(
    gateways_are_away_s: int,
) -> None:
    """They die while a bind is under way, and for half a minute nobody can ask for it again.

    The scheduler's successor leads before or after a gateway has seen the bind once more.
    """

    async def scenario(machine: Machine) -> None:
        began = _zombie(machine, executed_after_s=50, refused_for_s=40)
        machine.world.want("x", 1)
        await machine.until(lambda: began, what="a bind")
        leader = machine.leader(SCHEDULER)
        assert leader is not None
        leader.kill()
        for gateway in machine.of(GATEWAY):
            if gateway.leads or gateways_are_away_s:
                gateway.kill()
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(gateways_are_away_s)
        for gateway in machine.of(GATEWAY):
            if not gateway.alive:
                gateway.start()
        await asyncio.sleep(60)

    _play(scenario)


def test_the_next_scheduler_knows_which_binds_are_uncertain() -> None:
    async def scenario(machine: Machine) -> None:
        began = _zombie(machine, executed_after_s=60, refused_for_s=50)
        machine.world.want("x", 1)
        await machine.until(lambda: began, what="a bind")
        await asyncio.sleep(20)
        leader = machine.leader(SCHEDULER)
        assert leader is not None
        leader.kill()
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(60)

    _play(scenario)


def test_the_next_scheduler_waits_for_what_its_predecessor_did() -> None:
    """Its view lags behind, and the last thing in it is a gang that wants the same room."""

    async def scenario(machine: Machine) -> None:
        leader = machine.leader(SCHEDULER)
        assert leader is not None
        standby = next(member for member in machine.of(SCHEDULER) if member is not leader)
        machine.cluster.slow_s = lambda method, path: 1.0 * _is_bind_call(method, path)
        machine.world.want("x", 1)
        await asyncio.sleep(0.3)
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(0.3)
        assert standby.link is not None
        standby.link.late_s = lambda subject: 2.0 * subject.startswith("vc.state.")
        await machine.until(lambda: machine.world.bound("x"), what="a bind")
        await leader.stop()
        await asyncio.sleep(20)

    _play(scenario)


def test_what_a_deposed_scheduler_had_sent_is_refused_when_it_comes_late() -> None:
    late: list[str] = []

    def late_s(subject: str) -> float:
        if not _is_bind(subject) or late:
            return 0.0
        late.append(subject)
        return 15.0

    async def scenario(machine: Machine) -> None:
        machine.bus.late_s = late_s
        machine.world.want("x", 1)
        await machine.until(lambda: late, what="a bind that is late")
        leader = machine.leader(SCHEDULER)
        assert leader is not None
        leader.kill()
        machine.world.want("y", 1, priority="high")
        await asyncio.sleep(30)
        assert machine.world.bound("y") == 1

    _play(scenario)


def test_a_lost_consumer_of_intents_holds_up_nothing_for_long() -> None:
    async def scenario(machine: Machine) -> None:
        stream = machine.bus.jetstream.streams["INTENT"]
        for name in tuple(stream.consumers):
            stream.drop_consumer(name)
        machine.world.want("x", 2)
        await machine.until(lambda: machine.world.bound("x") == 2, within_s=15, what="a bind")

    _play(scenario, cpus=(2,))


def test_a_gang_that_can_not_become_whole_gives_its_room_back() -> None:
    """One of its pods is never bound, because each call for it fails."""

    def slow_s(method: str, path: str) -> float:
        return 1e6 if _is_bind_call(method, path) and "/x-1/" in path else 0.0

    async def scenario(machine: Machine) -> None:
        machine.cluster.slow_s = slow_s
        machine.world.want("x", 2)
        await machine.until(lambda: machine.world.bound("x") == 1, what="half a gang")
        await machine.until(
            lambda: not machine.world.bound("x"),
            within_s=GANG_BIND_TIMEOUT_S + 10,
            what="the eviction of half a gang",
        )
        machine.cluster.slow_s = lambda _method, _path: 0.0
        machine.cluster.under_way = 0  # those would be executed in a week

    _play(scenario, cpus=(2,))
