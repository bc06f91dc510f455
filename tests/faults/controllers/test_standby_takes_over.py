"""A standby of the controllers leads within five seconds of its leader's death."""

import time
from collections.abc import Callable

import pytest

from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults, pytest.mark.timeout(150)]

StartControllers = Callable[..., DeciderProcess]


async def until_open(cluster: ClusterBuilder, queue: str, deadline_s: float = 20.0) -> None:
    """Only controllers that decide give a new queue its state."""

    async def is_open() -> bool:
        found = await cluster.fetch("queue", queue)
        return found is not None and found.get("status", {}).get("state") == "Open"

    await eventually(is_open, deadline_s=deadline_s, describe=f"queue {queue} is open")


async def leader_of(*processes: DeciderProcess) -> DeciderProcess:
    def leading() -> DeciderProcess | None:
        return next((one for one in processes if one.events("turn.began")), None)

    return await eventually(leading, deadline_s=20, describe="somebody leads")


async def test_a_standby_decides_within_five_seconds_of_the_leaders_death(
    start_controllers: StartControllers, cluster: ClusterBuilder
):
    """With the lease as it is in production."""
    both = [start_controllers(lease_life="4s") for _ in range(2)]
    for process in both:
        await process.until_ready()
    leader = await leader_of(*both)
    [standby] = [process for process in both if process is not leader]
    await until_open(cluster, await cluster.queue("before"))
    assert standby.events("turn.began") == []

    leader.kill()
    died = time.monotonic()
    await until_open(cluster, await cluster.queue("after"), deadline_s=10)
    took_s = time.monotonic() - died

    assert took_s < 5.0
    assert standby.events("turn.began") != []


async def test_each_controller_can_be_a_process_of_its_own_with_a_leader_of_its_own(
    start_controllers: StartControllers, cluster: ClusterBuilder
):
    queues = start_controllers("queue-controller")
    jobs = start_controllers("*,-queue-controller")
    for process in (queues, jobs):
        await process.until_ready()
        await process.until_event("turn.began")
    await until_open(cluster, "default")
    made = await cluster.job("j")

    async def has_group() -> bool:
        return f"j-{made.uid}" in await cluster.names("vcpodgroup")

    await eventually(has_group, deadline_s=20, describe="the job's PodGroup")
    jobs.kill()
    await until_open(cluster, await cluster.queue("alone"))
