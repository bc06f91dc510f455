"""Jobs in a simulated cluster, with the test as scheduler and kubelet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stromboli.contracts.stimuli import Core
from stromboli.testkit.sample_jobs import Manifest, command
from stromboli.testkit.simulated_gateway import CoreDriver, SimulatedGateway

__all__ = ["JobScenario"]


@dataclass
class JobScenario:
    """Every method lets the core come to rest afterwards, unless `settles` is off."""

    gateway: SimulatedGateway
    make_core: Callable[[], Core]
    settles: bool = True

    def __post_init__(self) -> None:
        self.driver = CoreDriver(self.gateway, self.make_core)
        self.driver.settle()

    def settle(self) -> None:
        if self.settles:
            self.driver.settle()

    # What others do.

    def submit(self, manifest: Manifest) -> Manifest:
        created = self.gateway.put("vcjob", manifest)
        self.settle()
        return created

    def enqueue(self, phase: str = "Inqueue") -> None:
        """The scheduler lets every gang in."""
        for name in self.gateway.names("vcpodgroup"):
            self.gateway.patch("vcpodgroup", name, {"status": {"phase": phase}})
        self.settle()

    def set_pods(self, phase: str, *, of: str = "", exit_code: int | None = None) -> None:
        """The kubelet reports a phase of all pods whose name contains `of`."""
        status: Manifest = {"phase": phase}
        if exit_code is not None:
            state = {"terminated": {"exitCode": exit_code}}
            status["containerStatuses"] = [{"name": "main", "state": state}]
        for name in self.gateway.names("pod"):
            if of in name:
                self.gateway.patch("pod", name, {"status": status})
        self.settle()

    def lose_pod(self, name: str) -> None:
        """Somebody else deletes a pod."""
        self.gateway.delete("pod", name)
        self.settle()

    def release_pods(self) -> None:
        self.gateway.release_pods()
        self.settle()

    def order(self, action: str, job_name: str, *, name: str = "order") -> None:
        """A person sends a command."""
        target = self.gateway.get("vcjob", job_name)
        assert target is not None
        self.gateway.put("command", command(name, action, target))
        self.settle()

    def running(self, manifest: Manifest) -> Manifest:
        """Submit a job and bring it to Running."""
        created = self.submit(manifest)
        self.enqueue()
        self.set_pods("Running")
        return created

    # What there is.

    def status(self, name: str) -> Manifest:
        found = self.gateway.get("vcjob", name)
        assert found is not None, f"there is no job {name}"
        status: Manifest = found.get("status", {})
        return status

    def phase(self, name: str) -> str:
        return str(self.status(name)["state"]["phase"])

    def phases(self, name: str) -> list[str]:
        """All the phases the job has been told to be in, in order."""
        return [line.detail["to"] for line in self.driver.history if line.job == name]

    def pods(self) -> dict[str, str]:
        """Name → phase; terminating ones as such."""
        shown: dict[str, str] = {}
        for name in self.gateway.names("pod"):
            pod: Any = self.gateway.get("pod", name)
            ends = "deletionTimestamp" in pod["metadata"]
            shown[name] = "Terminating" if ends else pod.get("status", {}).get("phase", "Pending")
        return shown
