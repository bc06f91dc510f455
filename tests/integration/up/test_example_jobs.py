"""The example jobs, which are the jobs of the project's first documents, from beginning to end.

Masters and workers end with code 0 after 3 s; sshd and parameter servers run until stopped. So a
job that completes does so because its task did, and what is left of it was stopped.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from stromboli.api import kinds
from stromboli.contracts.outcomes import GangBound
from stromboli.contracts.records import HistoryRecorded
from stromboli.kube import KubeClient
from stromboli.testkit.eavesdropping import Eavesdropper, eavesdropping
from stromboli.testkit.installations import Installation
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import Version, Witness, witnessing

pytestmark = [pytest.mark.nats, pytest.mark.asyncio(loop_scope="module")]

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMESPACE = "default"
JOBS = {"hello-mpi": "mpi-job.yaml", "hello-tensorflow": "tensorflow-job.yaml"}


@dataclass
class Seen:
    """What was there, and everybody who saw it."""

    kube: KubeClient
    bus: Eavesdropper
    pods: Witness
    groups: Witness

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """As they were in the end."""

    async def submit(self, name: str, file: str) -> None:
        manifest = yaml.safe_load((EXAMPLES / file).read_text())
        assert manifest["metadata"]["name"] == name
        await self.kube.create(kinds.VC_JOB, NAMESPACE, manifest, field_manager="test")

    async def until_over(self, name: str) -> None:
        async def completed() -> dict[str, Any] | None:
            found = await self.kube.get(kinds.VC_JOB, NAMESPACE, name)
            job = msgspec.json.decode(found, type=dict[str, Any])
            phase = job.get("status", {}).get("state", {}).get("phase")
            return job if phase == "Completed" else None

        self.jobs[name] = await eventually(
            completed, deadline_s=40, interval_s=0.1, describe=f"{name} to complete"
        )
        await eventually(
            lambda: not self.still_there(name) and self.group_is_gone(name),
            deadline_s=10,
            describe=f"what is left of {name} to be stopped",
        )

    def still_there(self, job: str) -> list[str]:
        """Pods that neither ended nor were deleted."""
        last = {version.name: version for version in self.pods.versions if is_of(version, job)}
        return [
            name
            for name, version in last.items()
            if not version.deleted and phase_of(version) not in {"Succeeded", "Failed"}
        ]

    def group_is_gone(self, job: str) -> bool:
        return any(version.deleted for version in self.groups.versions if is_of(version, job))

    def deleted_while(self, job: str) -> dict[str, str]:
        """The pods that were deleted, and the phase that they were in when that began."""
        found: dict[str, str] = {}
        for version in self.pods.versions:
            if is_of(version, job) and version.is_ending:
                found.setdefault(version.name, phase_of(version))
        return found

    def stories(self, job: str) -> list[HistoryRecorded]:
        records = (word.message for word in self.bus.of("HISTORY"))
        return [r for r in records if isinstance(r, HistoryRecorded) and r.job == job]

    def binds(self, job: str) -> list[GangBound]:
        outcomes = (word.message for word in self.bus.of("OUTCOME"))
        key = f"vcjob/{NAMESPACE}/{job}"
        return [o for o in outcomes if isinstance(o, GangBound) and o.key == key]


def is_of(version: Version, job: str) -> bool:
    owners = version.object["metadata"].get("ownerReferences", [])
    return [owner["name"] for owner in owners] == [job]


def phase_of(version: Version) -> str:
    return version.object["status"]["phase"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Seen]:
    """Both jobs, run to their end at the same time on one installation."""
    flags = ["--rules", EXAMPLES / "rules.yaml"]
    folder = tmp_path_factory.mktemp("up") / "stromboli"
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(Installation(folder, flags=flags))
        kube = await stack.enter_async_context(KubeClient.connect(up.access()))
        bus = await stack.enter_async_context(eavesdropping(up.bus("operator")))
        pods = await stack.enter_async_context(witnessing(kube, NAMESPACE))
        groups = await stack.enter_async_context(witnessing(kube, NAMESPACE, "vcpodgroup"))
        found = Seen(kube, bus, pods, groups)
        for name, file in JOBS.items():
            await found.submit(name, file)
        for name in JOBS:
            await found.until_over(name)
        yield found


@pytest.mark.parametrize(
    ("name", "task", "replicas", "stopped"),
    [
        ("hello-mpi", "mpimaster", 1, {f"hello-mpi-mpiworker-{i}" for i in range(3)}),
        ("hello-tensorflow", "worker", 2, {"hello-tensorflow-ps-0"}),
    ],
)
async def test_a_job_completes_because_its_task_did_and_the_rest_is_stopped_while_running(
    seen: Seen, name: str, task: str, replicas: int, stopped: set[str]
):
    ends = [r for r in seen.stories(name) if r.detail.get("action") == "CompleteJob"]
    assert ends, f"no CompleteJob in {seen.stories(name)}"
    assert task in ends[0].why
    counts = seen.jobs[name]["status"]["taskStatusCount"]
    assert counts[task]["phase"] == {"Succeeded": replicas}
    assert seen.deleted_while(name) == dict.fromkeys(stopped, "Running")


@pytest.mark.parametrize(("name", "gang_size"), [("hello-mpi", 4), ("hello-tensorflow", 3)])
async def test_a_gang_starts_whole(seen: Seen, name: str, gang_size: int):
    gangs = seen.binds(name)

    assert [len(gang.pods) for gang in gangs] == [gang_size]
    assert all(pod.bound for pod in gangs[0].pods)
    statuses = [v.object.get("status", {}) for v in seen.groups.versions if is_of(v, name)]
    assert max(status.get("running", 0) for status in statuses) == gang_size


async def test_the_pod_group_of_the_mpi_job_is_the_one_of_the_documents(seen: Seen):
    uid = seen.jobs["hello-mpi"]["metadata"]["uid"]
    versions = [v for v in seen.groups.versions if is_of(v, "hello-mpi")]
    groups = [version.object for version in versions if not version.deleted]
    first, last = groups[0], groups[-1]
    assert first["metadata"]["name"] == f"hello-mpi-{uid}"
    assert first["metadata"]["labels"] == {"volcano.sh/job-type": "MPI"}
    assert first["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "blockOwnerDeletion": True,
            "controller": True,
            "kind": "Job",
            "name": "hello-mpi",
            "uid": uid,
        }
    ]
    assert last["spec"] == {
        "minMember": 4,
        "minResources": {
            "count/pods": "4",
            "cpu": "3500m",
            "limits.cpu": "3500m",
            "pods": "4",
            "requests.cpu": "3500m",
        },
        "minTaskMember": {"mpimaster": 1, "mpiworker": 3},
        "queue": "default",
    }
    phases = list(dict.fromkeys(group.get("status", {}).get("phase", "") for group in groups))
    assert [phase for phase in phases if phase] == ["Inqueue", "Running"]
    scheduled = [c for c in last["status"]["conditions"] if c["type"] == "Scheduled"]
    assert [(c["status"], c["reason"]) for c in scheduled] == [
        ("True", "tasks in gang are ready to be scheduled")
    ]
