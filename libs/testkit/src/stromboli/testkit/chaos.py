"""Examples for the promise machine, each drawn from one number.

The number decides the cluster, the gangs, how bad the network is, how wrong each clock is, and who
is killed, frozen or cut off, and when. Then all faults end, and the machine has to come to rest.
`live_through` draws from everything; `live_through_a_bind` looks closely at one bind whose end is
hard to know, while others wait for its room.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final

from stromboli.contracts.streams import INTENT
from stromboli.testkit.fault_plan import FaultPlan
from stromboli.testkit.promise_machine import (
    GATEWAY,
    SCHEDULER,
    Machine,
    Member,
    crash_points,
    reaching,
)
from stromboli.testkit.virtual_time import run_virtually

__all__ = ["live_through", "live_through_a_bind"]

_PAUSES_S: Final = (0.01, 0.1, 0.5, 2.0, 5.0)
_HOUR_S: Final = 3600.0
_CLOCKS_S: Final = ((0.0,), (-_HOUR_S, 0.0, _HOUR_S), (-5.0, 0.0, 5.0), (-_HOUR_S, _HOUR_S / 2))


def live_through(number: int) -> None:
    """Run the example of this number; raises `Broken` when a promise is not kept."""
    run_virtually(_example(number))


def live_through_a_bind(number: int) -> None:
    """Run the example of this number; raises `Broken` when a promise is not kept."""
    run_virtually(_example_of_a_bind(number))


async def _example(number: int) -> None:
    rng = random.Random(number)
    faults = FaultPlan(random.Random(rng.random())).draw()
    faults.longest_zombie_s = rng.choice((3.0, 15.0, 60.0))
    cpus = tuple(rng.choice((1, 2, 3)) for _ in range(rng.choice((1, 1, 2, 3))))
    wrong_by_s = rng.choice(_CLOCKS_S)
    clocks = {
        f"{service}-{which}": rng.choice(wrong_by_s)
        for service in (GATEWAY, SCHEDULER)
        for which in (0, 1)
    }
    machine = Machine(rng, cpus=cpus, faults=faults, clocks_ahead_s=clocks)
    async with machine.running():
        with contextlib.ExitStack() as armed:
            chaos = _Chaos(machine, rng, armed)
            for _ in range(rng.randrange(1, 5)):
                chaos.submit()
            for _ in range(rng.randrange(4, 12)):
                chaos.step()
                await asyncio.sleep(rng.choice(_PAUSES_S))
        machine.end_faults()
        await machine.come_to_rest()
        machine.check()


class _Chaos:
    """What happens to a machine, one thing after the other."""

    def __init__(self, machine: Machine, rng: random.Random, armed: contextlib.ExitStack) -> None:
        self._machine = machine
        self._rng = rng
        self._armed = armed
        self._is_armed = False
        self._gangs = 0
        self._loop = asyncio.get_running_loop()

    def step(self) -> None:
        self._rng.choice(self._choices())()

    def _choices(self) -> list[Callable[[], None]]:
        return [
            *[self.submit] * 8,
            *[self._drop] * 2,
            self._kill,
            self._kill,
            self._kill_both,
            self._kill_at_a_point,
            self._kill_at_a_point,
            self._freeze,
            self._freeze,
            self._cut,
            self._hang,
            self._lose_consumers,
            self._machine.cluster.compact,
            self._machine.cluster.end_watches,
        ]

    def submit(self) -> None:
        self._gangs += 1
        most = sum(self._machine.world.cpus.values())
        self._machine.world.want(
            f"g{self._gangs}",
            self._rng.randint(1, min(4, most)),
            priority=self._rng.choice(("", "", "high")),
        )

    def _drop(self) -> None:
        if self._machine.world.gangs:
            self._machine.world.drop(self._rng.choice(sorted(self._machine.world.gangs)))

    def _some_member(self) -> Member:
        leaders = [member for member in self._machine.members if member.leads]
        return self._rng.choice([*self._machine.members, *leaders, *leaders])

    def _kill(self) -> None:
        self._kill_one(self._some_member())

    def _kill_one(self, member: Member) -> None:
        member.kill()
        self._loop.call_later(self._rng.uniform(0.1, 6.0), self._start, member)

    def _start(self, member: Member) -> None:
        if not member.alive and self._machine.faults.active:
            member.start()

    def _kill_both(self) -> None:
        for service in (GATEWAY, SCHEDULER):
            if (leader := self._machine.leader(service)) is not None:
                self._kill_one(leader)

    def _kill_at_a_point(self) -> None:
        """And perhaps the scheduler with it."""
        if self._is_armed:
            return
        self._is_armed = True
        both = self._rng.random() < 0.5

        def happens(member: Member) -> None:
            self._kill_one(member)
            if both and (leader := self._machine.leader(SCHEDULER)) is not None:
                self._kill_one(leader)

        point = self._rng.choice(crash_points())
        self._armed.enter_context(reaching(point, happens, time=self._rng.choice((1, 1, 2, 5))))

    def _freeze(self) -> None:
        member = self._some_member()
        process = member.process
        process.freeze()
        self._loop.call_later(self._rng.choice((0.5, 3.0, 8.0, 20.0)), process.thaw)

    def _cut(self) -> None:
        if (link := self._some_member().link) is not None:
            link.cut(reconnects_after_s=self._rng.choice((0.2, 1.0, 6.0)))

    def _hang(self) -> None:
        if (link := self._some_member().link) is not None:
            link.hang(self._rng.choice((1.0, 5.0, 10.0)))

    def _lose_consumers(self) -> None:
        stream = self._machine.bus.jetstream.streams.get(INTENT.name)
        if stream is not None:
            for name in tuple(stream.consumers):
                stream.drop_consumer(name)


async def _example_of_a_bind(number: int) -> None:
    rng = random.Random(number)
    faults = FaultPlan(random.Random(rng.random()), longest_delay_s=rng.choice((0.5, 3.0, 8.0)))
    faults.late_event = rng.choice((0.0, 0.0, 0.5, 1.0))
    faults.late_answer = rng.choice((0.0, 0.0, 0.05))
    faults.active = False
    faults.lost_bind_ack = rng.choice((0.0, 0.0, 0.3, 1.0))
    wrong_by_s = rng.choice(_CLOCKS_S)
    clocks = {service: rng.choice(wrong_by_s) for service in (GATEWAY, SCHEDULER)}
    cpus = rng.choice(((1,), (2,), (1, 1)))
    machine = Machine(rng, cpus=cpus, faults=faults, clocks_ahead_s=clocks)
    async with machine.running():
        await machine.until(lambda: machine.leader(SCHEDULER), what="a leader")
        faults.active = True
        doubt = _Doubt(rng)
        machine.cluster.slow_s = doubt.slow_s
        machine.cluster.is_refused = doubt.is_refused
        machine.cluster.is_unanswered = doubt.is_unanswered
        machine.world.want("x", rng.randint(1, sum(cpus)))
        await machine.until(lambda: doubt.began_at, within_s=200, what="a bind")
        with contextlib.ExitStack() as armed:
            trouble = _Trouble(machine, rng, armed)
            for _ in range(rng.randrange(1, 5)):
                await asyncio.sleep(rng.choice((0.0, 0.01, 0.3, 1.0, 4.0, 12.0)))
                trouble.step()
            await asyncio.sleep(rng.choice((0.0, 5.0, 20.0)))
        machine.end_faults()
        await machine.come_to_rest()
        machine.check()


class _Doubt:
    """What the API server does with the binds of one gang."""

    def __init__(self, rng: random.Random) -> None:
        self.began_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._zombie_s = rng.choice((0.0, 2.0, 10.0, 25.0, 45.0))
        self._zombies = rng.choice((1, 1, 2, 5))
        """How many calls are executed that late."""
        self._refuses_s = rng.choice((0.0, 0.0, 5.0, 20.0))
        """How long all others are turned away."""
        self._loses = rng.choice((0, 0, 1, 3))
        """How many are executed at once, without an answer."""

    def _is_meant(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/binding") and "/x-" in path

    def is_refused(self, method: str, path: str) -> bool:
        if not self._is_meant(method, path) or self._zombies or self._loses:
            return False
        return self._loop.time() < self.began_at + self._refuses_s

    def slow_s(self, method: str, path: str) -> float:
        if not self._is_meant(method, path):
            return 0.0
        self.began_at = self.began_at or self._loop.time()
        if not self._zombies:
            return 0.0
        self._zombies -= 1
        return self._zombie_s

    def is_unanswered(self, method: str, path: str) -> bool:
        if not self._is_meant(method, path) or not self._loses:
            return False
        self._loses -= 1
        return True


class _Trouble(_Chaos):
    """What happens while a bind is in doubt."""

    def _choices(self) -> list[Callable[[], None]]:
        return [
            *[self._compete] * 3,
            *[self._kill_leader] * 2,
            *[self._kill_both] * 3,
            self._freeze,
            self._cut,
            self._hang,
        ]

    def _compete(self) -> None:
        """Somebody else could use the room."""
        self._gangs += 1
        most = sum(self._machine.world.cpus.values())
        self._machine.world.want(f"y{self._gangs}", self._rng.randint(1, most), priority="high")

    def _kill_leader(self) -> None:
        leader = self._machine.leader(self._rng.choice((GATEWAY, SCHEDULER)))
        if leader is not None:
            self._kill_one(leader)
