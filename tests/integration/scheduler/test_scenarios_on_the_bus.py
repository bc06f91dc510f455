"""Volcano's own cases of what its scheduler decides, through a real NATS server.

The scheduler is the service's own composition: its shell, its lease, its fences, its view of
STATE, and the configuration from a ConfigMap. The cluster behind the bus is in memory, and what
it is asked for passes the gateway's own checks. The scenarios and what they expect are those of
tests/conformance; why a job waits is read from HISTORY and from its PodGroup, where a pod is
to go from the pod.

Each scenario has a scheduler of its own that starts when its cluster is on the bus. The date is
the scenario's, so that time can pass at once.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stromboli.api.core import ConfigMap
from stromboli.api.kinds import CONFIG_MAP
from stromboli.api.meta import ObjectMeta
from stromboli.api.wellknown import SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_MAP
from stromboli.contracts import codec
from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Reason
from stromboli.contracts.permissions import SCHEDULER
from stromboli.contracts.records import REPAIRED
from stromboli.contracts.stimuli import SafetyPass
from stromboli.contracts.streams import HISTORY, STREAMS
from stromboli.gateway import checks
from stromboli.runtime.bus.intake import IntentIntake
from stromboli.runtime.bus.streams import reconcile
from stromboli.runtime.deciding import DecidingShell
from stromboli.runtime.turn import Pace
from stromboli.scheduler.__main__ import sources
from stromboli.scheduler.config import SchedulerSettings
from stromboli.scheduler.reloading import ReloadingCore
from stromboli.scheduling.core import KINDS
from stromboli.simulating.manifests import Source
from stromboli.simulating.simulate import load
from stromboli.testkit.bus_contents import stored_messages
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.clock import SetDate
from stromboli.testkit.cluster_on_the_bus import ClusterOnTheBus
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.observed_core import ObservedCore
from stromboli.testkit.scheduling_findings import Findings, Waiting, check
from stromboli.testkit.scheduling_scenario import (
    Scenario,
    change,
    files_of,
    read_scenarios,
)
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.asyncio(loop_scope="module")]

SCENARIOS = list(read_scenarios(Path(__file__).parents[2] / "conformance" / "scheduling"))
READ = (*KINDS, CONFIG_MAP.token)


def _configuration(conf: str) -> ConfigMap:
    namespace, _, name = SCHEDULER_CONFIG_MAP.partition("/")
    return ConfigMap(
        metadata=ObjectMeta(namespace=namespace, name=name), data={SCHEDULER_CONFIG_KEY: conf}
    )


def as_the_gateway_checks(intent: AnyIntent) -> tuple[Reason, str] | None:
    refusal = checks.check(intent, intent.subject())
    return None if refusal is None else (refusal.reason, refusal.message)


class Stage:
    """One NATS server, and on it one cluster and one scheduler after the other."""

    def __init__(self, bus: Bus, scheduler: Bus, clock: SetDate) -> None:
        self.cluster = ClusterOnTheBus(bus, kinds=READ, check=as_the_gateway_checks)
        self._member = scheduler
        self._clock = clock
        self._core: ObservedCore | None = None
        self._shell: DecidingShell | None = None

    async def play(self, scenario: Scenario, *, again: bool = False) -> Findings:
        """With `again`, another scheduler takes over in the end."""
        manifests, conf = files_of(scenario)
        given, _ = load([Source(scenario["id"], manifests)])
        self._clock.timestamp = given.now
        objects = [_configuration(conf), *given.objects.values()]
        await self.cluster.begin(objects, now=given.now)
        async with self._scheduler():
            if scenario.get("until") == "idle":
                await self._until_idle()
            for step in scenario.get("after", ()):
                await self._step(step)
            if {"pipelined", "codes", "sentences"} & scenario["expect"].keys():
                # Pods are not told at once, nor is it said of a gang that it lacks some.
                await self._advance(1.1)
                await self._rest()
            if not again:
                return await self._findings()
        # Ids of intents are made of the date: no two schedulers decide at the same moment.
        self._set_time(self._clock.timestamp + 0.001)
        async with self._scheduler():
            return await self._findings()

    @contextlib.asynccontextmanager
    async def _scheduler(self) -> AsyncGenerator[None]:
        """One that has started and decided what there is to decide."""
        self._core = None
        self._shell = self._made_shell()
        async with background(self._shell.run()):
            await self._rest()
            yield

    def _made_shell(self) -> DecidingShell:
        _, conf_map = sources(SchedulerSettings())
        assert conf_map is not None

        def make_core() -> ObservedCore:
            core = ReloadingCore(conf_map.configuration, conf_map=conf_map)
            self._core = ObservedCore(core)
            return self._core

        return DecidingShell(
            service=SCHEDULER,
            kinds=READ,
            make_core=make_core,
            connection=self._member.connection,
            publisher=self._member.publisher,
            clock=self._clock,
            holder="test",
            pace=Pace(safety_every_s=3600),
        )

    # What happens.

    async def _until_idle(self) -> None:
        """Bound pods start, and evicted ones are gone when nobody else has anything to do."""
        kubelets = self.cluster.kubelets
        while kubelets.start_bound() or kubelets.end_leaving():
            await self.cluster.tell()
            await self._rest()

    async def _step(self, step: dict[str, Any]) -> None:
        for what, detail in step.items():
            if what == "advance":
                await self._advance(detail)
            else:
                change(self.cluster, what, detail)
        await self.cluster.tell()
        await self._rest()

    async def _advance(self, seconds: float) -> None:
        """Stopping wherever the scheduler wants to be woken."""
        assert self._core is not None
        end = self._clock.timestamp + seconds
        while self._core.wake_at <= end:
            self._set_time(max(self._clock.timestamp, self._core.wake_at))
            await self._rest()
        self._set_time(end)

    def _set_time(self, now: float) -> None:
        self._clock.timestamp = now
        self.cluster.set_time(now)
        if self._shell is not None and self._shell.turn is not None:
            self._shell.turn.look()  # it looks at the date again, as it does now and then

    async def _rest(self) -> None:
        await eventually(self._is_at_rest, deadline_s=20, interval_s=0.002)

    def _is_at_rest(self) -> bool:
        shell, core, cluster = self._shell, self._core, self.cluster
        return (
            shell is not None
            and core is not None
            and shell.turn is not None
            and not shell.turn.stimuli
            and core.is_at_rest(self._clock.timestamp)
            and cluster.has_told_all
            and shell.view.sequence >= cluster.sequence
        )

    # What came of it.

    async def _findings(self) -> Findings:
        cluster, gateway = self.cluster, self.cluster.gateway
        assert self._core is not None
        # A pod may be gone before it is told why it has to go.
        refused = [one for one in cluster.refused if one.reason is not Reason.STALE]
        assert refused == []
        found = Findings(
            binds={name: node for (_, name), node in gateway.binds.items()},
            evicts=[name for _, name in gateway.evictions],
            pipelined=self._pipelined(),
            waiting=await self._waiting(),
            objects=dict(cluster.objects),
        )
        assert await self._repaired() == []
        return found

    async def _repaired(self) -> list[str]:
        """Jobs of which a safety pass finds that something should have woken them."""
        assert self._shell is not None
        self._shell._push(SafetyPass(within_s=0.0))
        await self._rest()
        messages = await stored_messages(self._member.connection, HISTORY.name)
        lines = [codec.history.decode(message.payload) for message in messages]
        return [line.job for line in lines if line.what == REPAIRED]

    def _pipelined(self) -> dict[str, str]:
        """As pods say of themselves: nominated, or told that room is being made."""
        found: dict[str, str] = {}
        for (kind, _, name), item in self.cluster.objects.items():
            if kind != "pod" or item.spec.node_name:
                continue
            told = [c.message for c in item.status.conditions if c.type == "PodScheduled"]
            _, _, where = "".join(told).partition(" can possibly be assigned to ")
            node, _, condition = where.partition(", ")
            if condition.startswith("once resource is released"):
                found[name] = node
        return found

    async def _waiting(self) -> dict[str, Waiting]:
        messages = await stored_messages(self._member.connection, HISTORY.name)
        lines = [codec.history.decode(message.payload) for message in messages]
        found: dict[str, Waiting] = {}
        for line in lines:
            if line.what == "job.waiting":
                group = self.cluster.get("vcpodgroup", line.namespace, line.job)
                said = [c.message for c in group.status.conditions if c.type == "Unschedulable"]
                found[line.job] = Waiting(line.detail["code"], "\n".join([line.why, *said]))
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with contextlib.AsyncExitStack() as stack:
        server = NatsServer(tmp_path_factory.mktemp("scenarios") / "nats")
        await stack.enter_async_context(server)
        gateway = await stack.enter_async_context(join(server))
        await reconcile(gateway.jetstream, STREAMS)
        scheduler = await stack.enter_async_context(join(server, SCHEDULER))
        clock = SetDate(0.0)
        stage = Stage(gateway, scheduler, clock)
        intake = IntentIntake(gateway.connection, clock, stage.cluster, owner="test")
        await stack.enter_async_context(background(intake.run()))
        yield stage


def name_of(scenario: Scenario) -> str:
    return f"{scenario['file']}-{scenario['id']}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
async def test_the_scenario_comes_out_through_the_bus_as_on_the_core(
    stage: Stage, scenario: Scenario
):
    check(scenario, await stage.play(scenario))


@pytest.mark.parametrize(
    "scenario",
    [one for one in SCENARIOS if one["expect"].get("evicts") and "not_restarted" not in one],
    ids=name_of,
)
async def test_a_scheduler_that_starts_while_victims_are_leaving_evicts_nobody_else(
    stage: Stage, scenario: Scenario
):
    check(scenario, await stage.play(scenario, again=True))


@pytest.mark.parametrize(
    "scenario", [one for one in SCENARIOS if "gated" in one["expect"]], ids=name_of
)
async def test_a_scheduler_that_takes_over_leaves_gates_as_they_are(
    stage: Stage, scenario: Scenario
):
    check(scenario, await stage.play(scenario, again=True))
