"""Where a case of a job's life is played: the cluster around the job.

`CoreStage` is a core alone in a simulated cluster, with virtual time and a grace for pods that
run. A stage on real servers is in `live_stage`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stromboli.testkit.case_pictures import Picture
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.sample_jobs import Manifest

__all__ = ["CoreStage", "Stage"]


class Stage(Protocol):
    """The cluster around a job."""

    async def make(self, kind: str, manifest: Manifest) -> None: ...

    async def remove(self, kind: str, name: str) -> None: ...

    async def submit(self, manifest: Manifest) -> None: ...

    async def change_job(self, body: Manifest) -> None: ...

    async def order(self, action: str) -> None: ...

    async def set_gang(self, phase: str, conditions: list[Manifest]) -> None:
        """The scheduler says how the gang fares."""
        ...

    async def report(self, pods: Callable[[str], bool], status: Manifest) -> None:
        """The kubelet says how these pods fare."""
        ...

    async def release(self) -> None:
        """The grace of pods that end is over."""
        ...

    async def pass_time(self, seconds: float) -> None: ...

    async def crash(self) -> None:
        """The controllers die, and others take their place."""
        ...

    async def until(self, check: Callable[[Picture], None]) -> Picture:
        """Until the check raises no AssertionError; then what it looked at."""
        ...


@dataclass
class CoreStage:
    """A core in a simulated cluster. Everything happens at once."""

    scenario: JobScenario
    job_name: str = ""

    async def make(self, kind: str, manifest: Manifest) -> None:
        self.scenario.gateway.put(kind, manifest)
        self.scenario.settle()

    async def remove(self, kind: str, name: str) -> None:
        self.scenario.gateway.delete(kind, name)
        self.scenario.settle()

    async def submit(self, manifest: Manifest) -> None:
        self.job_name = manifest["metadata"]["name"]
        self.scenario.submit(manifest)

    async def change_job(self, body: Manifest) -> None:
        self.scenario.gateway.patch("vcjob", self.job_name, body)
        self.scenario.settle()

    async def order(self, action: str) -> None:
        name = f"order-{len(self.scenario.gateway.applied)}"
        self.scenario.order(action, self.job_name, name=name)

    async def set_gang(self, phase: str, conditions: list[Manifest]) -> None:
        gateway = self.scenario.gateway
        (name,) = gateway.names("vcpodgroup")
        status: Manifest = {"phase": phase, "conditions": conditions}
        gateway.patch("vcpodgroup", name, {"status": status})
        self.scenario.settle()

    async def report(self, pods: Callable[[str], bool], status: Manifest) -> None:
        names = [name for name in self.scenario.gateway.names("pod") if pods(name)]
        assert names, f"there is no such pod, only {self.scenario.gateway.names('pod')}"
        for name in names:
            self.scenario.gateway.patch("pod", name, {"status": status})
        self.scenario.settle()

    async def release(self) -> None:
        self.scenario.release_pods()

    async def pass_time(self, seconds: float) -> None:
        self.scenario.driver.wait(seconds)

    async def crash(self) -> None:
        self.scenario.driver.start()
        self.scenario.settle()

    async def until(self, check: Callable[[Picture], None]) -> Picture:
        gateway = self.scenario.gateway
        objects: dict[str, dict[str, Manifest]] = {}
        for (kind, _, name), found in gateway.objects.items():
            objects.setdefault(kind, {})[name] = found
        picture = Picture(
            job=gateway.get("vcjob", self.job_name) or {},
            phases=self.scenario.phases(self.job_name),
            objects=objects,
        )
        check(picture)
        return picture
