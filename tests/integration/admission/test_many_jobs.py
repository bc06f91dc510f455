"""Under load, admission is never the reason that a job is not taken."""

import asyncio
import time
from typing import Any

import pytest

from stromboli.api import kinds
from stromboli.kube import KubeClient
from stromboli.kube.errors import KubeError
from stromboli.kube.settings import Limits
from stromboli.testkit.admissions import AdmissionStack

pytestmark = [pytest.mark.nats, pytest.mark.slow, pytest.mark.timeout(180)]

JOBS = 2000
AT_ONCE = 64


def manifest(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1"]}
    return {
        "apiVersion": kinds.VC_JOB.api_version,
        "kind": "Job",
        "metadata": {"name": f"job-{number}"},
        "spec": {
            "queue": "busy",
            "tasks": [{"replicas": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }


async def test_two_thousand_jobs_at_once_and_none_is_refused_for_time(stack: AdmissionStack):
    """Volcano's own report: 98.7 % of creations failed at the default time-outs under load."""
    limits = Limits(max_in_flight=AT_ONCE, max_connections=AT_ONCE)
    numbers = iter(range(JOBS))
    refused: list[str] = []
    async with KubeClient.connect(stack.api.access(limits=limits)) as kube:
        queue = {"metadata": {"name": "busy"}, "spec": {"weight": 1}}
        body = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", **queue}
        await kube.create(kinds.QUEUE, None, body, field_manager="test")

        async def submit() -> None:
            for number in numbers:
                try:
                    await kube.create(
                        kinds.VC_JOB, "default", manifest(number), field_manager="test"
                    )
                except KubeError as problem:
                    refused.append(str(problem))

        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(submit())
        took_s = time.monotonic() - started

        assert refused == []
        stored = 0
        async for page in kube.list_pages(kinds.VC_JOB, namespace="default"):
            stored += len(page.items)
        assert stored == JOBS
    print(f"{JOBS} jobs in {took_s:.1f} s: {JOBS / took_s:.0f}/s")  # noqa: T201 (shown by -s)
