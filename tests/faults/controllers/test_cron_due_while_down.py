"""A schedule comes due while no controllers run: it is made up for, once."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from stromboli.testkit.deciders import DeciderProcess
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.faults, pytest.mark.timeout(150)]

StartControllers = Callable[..., DeciderProcess]


def cron(schedule: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": job("x", task("t", 1))["spec"]}
    return {
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


async def times_of(cluster: ClusterBuilder) -> list[str]:
    """The times that there are jobs for."""
    found = [await cluster.fetch("vcjob", name) for name in await cluster.names("vcjob")]
    return sorted(
        one["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"]
        for one in found
        if one is not None
    )


async def status_of(cluster: ClusterBuilder) -> dict[str, Any]:
    found = await cluster.fetch("vccronjob", "tick")
    assert found is not None
    return found.get("status", {})


async def until_made(cluster: ClusterBuilder, number: int) -> list[str]:
    async def made() -> list[str] | None:
        times = await times_of(cluster)
        return times if len(times) >= number else None

    return await eventually(made, deadline_s=20, describe=f"{number} jobs")


async def test_a_time_that_came_while_the_controllers_were_down_is_made_up_for_once(
    start_controllers: StartControllers, cluster: ClusterBuilder
):
    first = start_controllers()
    await first.until_ready()
    await cluster.make("vccronjob", cron("@every 4s", concurrencyPolicy="Forbid"))
    [before] = await until_made(cluster, 1)
    first.kill()
    [name] = await cluster.names("vcjob")
    await cluster.delete("vcjob", name)

    # Two times come and go; the last of them is what is due.
    async def two_times_later() -> bool:
        return time.time() > _unix(before) + 9

    await eventually(two_times_later, deadline_s=20, describe="two more times have come")
    second = start_controllers()
    await second.until_ready()
    [after] = await until_made(cluster, 1)

    assert (_unix(after) - _unix(before)) % 4 == 0
    assert _unix(after) - _unix(before) >= 8

    async def is_told() -> bool:
        status = await status_of(cluster)
        return status.get("lastScheduleTime") == after and len(status.get("active", [])) == 1

    await eventually(is_told, deadline_s=10, describe="the status names the job and its time")


async def test_controllers_that_die_while_they_make_a_job_make_no_second_one(
    start_controllers: StartControllers, cluster: ClusterBuilder
):
    """In the unit tests they die at every step; here, a moment after the time has come."""
    first = start_controllers()
    await first.until_ready()
    await cluster.make("vccronjob", cron("@every 3s"))

    async def is_due() -> bool:
        found = await cluster.fetch("vccronjob", "tick")
        assert found is not None
        return time.time() >= _unix(found["metadata"]["creationTimestamp"]) + 3.05

    await eventually(is_due, deadline_s=10, describe="the first time", interval_s=0.005)
    first.kill()
    second = start_controllers()
    await second.until_ready()
    times = await until_made(cluster, 2)

    assert len(times) == len(set(times))


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
