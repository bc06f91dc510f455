"""Life in a cluster while a test breaks something: changes at the API server, intents on the bus.

The intents of each job write its steps 1, 2, 3, … on a pod, so that order and repetition can
be read from the pod's versions afterwards. What the bus said to each intent is remembered:
stored, perhaps stored, or not stored.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from stromboli.contracts.intents import AnyIntent
from stromboli.contracts.outcomes import Applied
from stromboli.kube.errors import KubeError
from stromboli.kube.wire import Written
from stromboli.runtime.bus.errors import BusError, PublishUncertain
from stromboli.testkit.aftermath import until_all_ended
from stromboli.testkit.bus_contents import stored_outcomes
from stromboli.testkit.bus_peer import BusPeer
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.tasks import background
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import Witness

__all__ = ["Traffic", "traffic"]

STEP = "step"


@dataclass
class Traffic:
    """What was done so far."""

    cluster: ClusterBuilder
    peer: BusPeer
    lives_s: float
    insists: bool
    """Ask for each intent until the bus has stored it, and only then for the next."""
    pods: list[Written] = field(default_factory=list[Written])
    stored: list[AnyIntent] = field(default_factory=list[AnyIntent])
    perhaps: list[AnyIntent] = field(default_factory=list[AnyIntent])
    unstored: list[AnyIntent] = field(default_factory=list[AnyIntent])
    changes: int = 0
    is_ending: bool = False

    async def more(self, *, intents: int = 0, changes: int = 0, deadline_s: float = 20.0) -> None:
        """Return when so many more intents were stored and objects changed."""
        intents += len(self.stored)
        changes += self.changes
        await eventually(
            lambda: len(self.stored) >= intents and self.changes >= changes,
            deadline_s=deadline_s,
            describe=lambda: (
                f"more traffic than {len(self.stored)} intents, {self.changes} changes"
            ),
        )

    async def change_objects(self) -> None:
        """Pods come, change and go at the API server."""
        number = 0
        while not self.is_ending:
            name = f"passing-{number % 5}"
            try:
                await self.cluster.pod(name)
                await self.cluster.label("pod", name, number=str(number))
                if number % 2:
                    await self.cluster.delete("pod", name)
                else:
                    await self.cluster.label("pod", name, kept="yes")
                    await self.cluster.delete("pod", name)
                    await self.cluster.pod(f"kept-{number}")
            except KubeError:
                await asyncio.sleep(0.1)  # the server may be the one that is broken
            number += 1
            self.changes += 1
            await asyncio.sleep(0.02)

    async def ask_for_steps(self) -> None:
        """Each job's next step, round and round."""
        step = 0
        while not self.is_ending:
            step += 1
            for pod in self.pods:
                intent = self.peer.patch(
                    "pod",
                    pod.namespace,
                    pod.name,
                    uid=pod.uid,
                    body={"metadata": {"annotations": {STEP: str(step)}}},
                    job=pod.name,
                    lives_s=self.lives_s,
                )
                await self._ask(intent)
            await asyncio.sleep(0.02)

    async def _ask(self, intent: AnyIntent) -> None:
        while True:
            try:
                await self.peer.ask(intent)
            except BusError as problem:
                if self.insists:
                    await asyncio.sleep(0.1)
                    continue
                uncertain = isinstance(problem, PublishUncertain)
                (self.perhaps if uncertain else self.unstored).append(intent)
            else:
                self.stored.append(intent)
            return

    async def check_nothing_lost_or_repeated(
        self, witness: Witness, deadline_s: float = 20.0
    ) -> None:
        """Every stored intent was applied and answered once, in order; none that was not."""
        await until_all_ended(self.peer, deadline_s)
        outcomes = await stored_outcomes(self.peer)
        answered = [outcome.intent_id for outcome in outcomes]
        applied = {outcome.intent_id for outcome in outcomes if isinstance(outcome, Applied)}

        assert len(answered) == len(set(answered)), "an intent was answered twice"
        assert {intent.id for intent in self.stored} <= applied, "an intent was lost"
        assert not applied & {intent.id for intent in self.unstored}
        for pod in self.pods:
            current = await self.cluster.fetch("pod", pod.name)
            assert current is not None
            await witness.until_seen(pod.name, current["metadata"]["resourceVersion"])
            steps = [int(step) for step in witness.values(pod.name, STEP)]
            assert steps == sorted(set(steps)), f"out of order or repeated: {steps}"
        asked = [*self.stored, *self.perhaps]
        for pod in self.pods:
            done = len(witness.values(pod.name, STEP))
            answers = [i for i in asked if i.key.endswith(f"/{pod.name}") and i.id in applied]
            counts = f"{pod.name}: {done} steps, {len(answers)} answers"
            assert done == len(answers) or (witness.has_gaps and done < len(answers)), counts


@contextlib.asynccontextmanager
async def traffic(
    cluster: ClusterBuilder,
    peer: BusPeer,
    *,
    jobs: int = 4,
    lives_s: float = 30.0,
    insists: bool = False,
) -> AsyncGenerator[Traffic]:
    """Traffic during the block; at its end the last change and the last intent are complete."""
    flow = Traffic(cluster, peer, lives_s, insists)
    flow.pods = [await cluster.pod(f"steps-{number}") for number in range(jobs)]
    async with background(flow.change_objects(), flow.ask_for_steps()) as tasks:
        yield flow
        flow.is_ending = True
        await asyncio.wait(tasks, timeout=20)
