"""Jobs that want the same nodes, on a whole running Stromboli: who runs, and who had to go.

The nodes are four with one CPU each unless said, every pod takes one of them, and pods run until
they are stopped. What happened to pods is told by a witness at the API server.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from stromboli.api import kinds
from stromboli.api.kinds import Kind
from stromboli.api.wellknown import JOB_NAME, SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_MAP
from stromboli.kube import KubeClient
from stromboli.kube.errors import KubeError
from stromboli.kube.wire import PatchType
from stromboli.testkit.installations import Installation
from stromboli.testkit.sample_jobs import job, task
from stromboli.testkit.waiting import eventually
from stromboli.testkit.witness import Version, Witness, witnessing

__all__ = ["Contest", "contest"]

_NAMESPACE = "default"
_TESTER = "test"
_CLASSES = {"high": 1000, "med": 500, "low": 10}


@dataclass
class Contest:
    """A running installation, and who watches its pods."""

    up: Installation
    kube: KubeClient
    pods: Witness
    jobs: set[str] = field(default_factory=set[str])
    """The uids of the jobs that were submitted since it was cleared: pods of earlier ones may
    still be made, and deleted, by intents that were on their way."""

    async def make(self, kind: Kind[Any], manifest: Mapping[str, Any], namespace: str = "") -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        await self.kube.create(kind, namespace or None, body, field_manager=_TESTER)

    async def configure(self, conf: str) -> None:
        """Make, or change, the ConfigMap that the scheduler follows."""
        namespace, _, name = SCHEDULER_CONFIG_MAP.partition("/")
        data = {SCHEDULER_CONFIG_KEY: conf}
        with contextlib.suppress(KubeError):
            await self.make(kinds.NAMESPACE, {"metadata": {"name": namespace}})
        try:
            await self.make(kinds.CONFIG_MAP, {"metadata": {"name": name}, "data": data}, namespace)
        except KubeError:
            await self.kube.patch(
                kinds.CONFIG_MAP,
                namespace,
                name,
                {"data": data},
                patch_type=PatchType.MERGE,
                field_manager=_TESTER,
            )

    async def submit(
        self, name: str, pods: int, least: int, *, priority: str = "", queue: str = "default"
    ) -> None:
        tasks = task("main", pods, cpu="1", command="/usr/sbin/sshd -D", minAvailable=least)
        spec: dict[str, Any] = {"priorityClassName": priority} if priority else {}
        manifest = job(name, tasks, minAvailable=least, queue=queue, **spec)
        made = await self.kube.create(kinds.VC_JOB, _NAMESPACE, manifest, field_manager=_TESTER)
        self.jobs.add(made.uid)

    # What is there.

    def living(self) -> dict[str, Version]:
        """The newest version of every pod that is there, by uid."""
        last = {version.uid: version for version in self.pods.versions}
        return {uid: version for uid, version in last.items() if not version.deleted}

    def running(self) -> Counter[str]:
        """How many pods of each job run, and were not told to go."""
        return Counter(
            version.object["metadata"]["labels"][JOB_NAME]
            for version in self.living().values()
            if version.object["status"]["phase"] == "Running"
            and not version.is_ending
            and self._is_ours(version)
        )

    def told_to_go(self) -> dict[str, str]:
        """Pods that were ever deleted by anybody: the name by uid."""
        return {
            version.uid: version.name
            for version in self.pods.versions
            if version.is_ending and self._is_ours(version)
        }

    def _is_ours(self, version: Version) -> bool:
        owners = version.object["metadata"].get("ownerReferences", ())
        return any(owner["uid"] in self.jobs for owner in owners)

    async def until_running(self, deadline_s: float = 30.0, **expected: int) -> None:
        """So many pods of each of these jobs run, and none of any other."""
        wanted = {name: number for name, number in expected.items() if number}
        await eventually(
            lambda: dict(self.running()) == wanted,
            deadline_s=deadline_s,
            interval_s=0.05,
            describe=lambda: f"{wanted} to run; {dict(self.running())} do",
        )

    async def until_it_says_why(self, name: str, deadline_s: float = 30.0) -> str:
        """The reason on the PodGroup of a job that waits."""

        async def message() -> str:
            async for page in self.kube.list_pages(kinds.VC_POD_GROUP, namespace=_NAMESPACE):
                for raw in page.items:
                    group = msgspec.json.decode(raw)
                    if not group["metadata"]["name"].startswith(f"{name}-"):
                        continue
                    for condition in group.get("status", {}).get("conditions", ()):
                        if condition["type"] == "Unschedulable" and condition["status"] == "True":
                            return condition["message"]
            return ""

        return await eventually(message, deadline_s=deadline_s, interval_s=0.1)

    # Holding pods back, and cleaning up.

    async def hold(self, *, held: bool) -> None:
        """Whether pods that are told to go stay, ending."""
        for version in self.living().values():
            with contextlib.suppress(KubeError):
                await self.kube.patch(
                    kinds.POD,
                    _NAMESPACE,
                    version.name,
                    {"metadata": {"finalizers": ["stromboli.sh/test"] if held else None}},
                    patch_type=PatchType.MERGE,
                    field_manager=_TESTER,
                )

    async def clear(self) -> None:
        """Delete all jobs, and wait until their pods are gone."""
        async for page in self.kube.list_pages(kinds.VC_JOB, namespace=_NAMESPACE):
            for raw in page.items:
                name = msgspec.json.decode(raw)["metadata"]["name"]
                await self.kube.delete(kinds.VC_JOB, _NAMESPACE, name)
        await eventually(lambda: not self.living(), deadline_s=30, describe="all pods to be gone")
        self.pods.versions.clear()
        self.jobs.clear()


@contextlib.asynccontextmanager
async def contest(folder: Path, conf: str, *, cpu: int = 1) -> AsyncGenerator[Contest]:
    """An installation with this configuration of the scheduler and four nodes."""
    nodes = folder / "nodes.yaml"
    nodes.write_text(yaml.safe_dump([{"name": "n", "count": 4, "cpu": cpu, "memory": "16Gi"}]))
    async with contextlib.AsyncExitStack() as stack:
        up = Installation(folder / "stromboli", flags=["--nodes", nodes])
        await stack.enter_async_context(up)
        kube = await stack.enter_async_context(KubeClient.connect(up.access()))
        pods = await stack.enter_async_context(witnessing(kube, _NAMESPACE))
        made = Contest(up, kube, pods)
        for name, value in _CLASSES.items():
            await made.make(kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        await made.configure(conf)
        await eventually(
            lambda: "configuration.changed" in up.log("scheduler"),
            deadline_s=20,
            describe="the scheduler to use its configuration",
        )
        yield made
