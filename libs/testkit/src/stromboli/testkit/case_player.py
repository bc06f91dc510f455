"""The one player of cases: what users, the scheduler and kubelets do, step by step."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from stromboli.testkit.case_pictures import Comparison, uids_of
from stromboli.testkit.job_stages import Stage
from stromboli.testkit.lifecycle_cases import Case, Expectation
from stromboli.testkit.sample_jobs import Manifest

__all__ = ["play"]


async def play(case: Case, stage: Stage) -> None:
    """Play a case to its end."""
    player = _Player(case, stage)
    for kind, manifests in case.before.items():
        for manifest in manifests:
            await stage.make(kind, manifest)
    await stage.submit(case.job)
    for number, step in enumerate(case.steps, start=1):
        try:
            await player.steps[step.what](step.detail)
        except AssertionError as fault:
            raise AssertionError(f"{case.sentence}: step {number}, {step.what}: {fault}") from fault


@dataclass
class _Player:
    case: Case
    stage: Stage
    comparison: Comparison = field(init=False)
    steps: dict[str, Callable[[Any], Awaitable[None]]] = field(init=False)

    def __post_init__(self) -> None:
        self.comparison = Comparison(self.name)
        self.steps = {
            "let-in": lambda _nothing: self.stage.set_gang("Inqueue", []),
            "group": self._group,
            "report": self._report,
            "lose": lambda pod: self.stage.remove("pod", f"{self.name}-{pod}"),
            "release": lambda _nothing: self.stage.release(),
            "order": self.stage.order,
            "change": self._change,
            "wait": self.stage.pass_time,
            "crash": lambda _nothing: self.stage.crash(),
            "make": self._make,
            "remove": self._remove,
            "drop-job": lambda _nothing: self.stage.remove("vcjob", self.name),
            "note": self._note,
            "expect": self._expect,
        }

    @property
    def name(self) -> str:
        return self.case.job["metadata"]["name"]

    async def _group(self, detail: Manifest) -> None:
        await self.stage.set_gang(detail["phase"], detail.get("conditions", []))

    async def _report(self, detail: Manifest) -> None:
        for which, status in detail.items():
            await self.stage.report(self._chosen(which), _pod_status(status))

    async def _change(self, detail: Manifest) -> None:
        """`replicas` by task, and other fields of the spec as they are."""
        spec = dict(detail)
        replicas: dict[str, int] = spec.pop("replicas", {})
        if replicas:
            spec["tasks"] = [
                {**task, "replicas": replicas.get(task["name"], task["replicas"])}
                for task in self.case.job["spec"]["tasks"]
            ]
        await self.stage.change_job({"spec": spec})

    async def _make(self, detail: dict[str, Manifest]) -> None:
        for kind, manifest in detail.items():
            await self.stage.make(kind, manifest)

    async def _remove(self, detail: dict[str, str]) -> None:
        for kind, name in detail.items():
            await self.stage.remove(kind, name)

    async def _note(self, _nothing: object) -> None:
        self.comparison.noted = uids_of(await self.stage.until(lambda _picture: None))

    async def _expect(self, expected: Expectation) -> None:
        await self.stage.until(lambda picture: self.comparison.compare(expected, picture))

    def _chosen(self, which: str) -> Callable[[str], bool]:
        if which == "all":
            return lambda _name: True
        return lambda name: name.startswith(f"{self.name}-{which}")


def _pod_status(written: str | Manifest) -> Manifest:
    if isinstance(written, str):
        written = {"phase": written}
    status: Manifest = {"phase": written["phase"]}
    if {"exitCode", "restarts", "ready"} & set(written):
        one: Manifest = {"name": "main", "image": "", "imageID": "", "ready": False}
        one["restartCount"] = written.get("restarts", 0)
        one["ready"] = written.get("ready", False)
        if "exitCode" in written:
            one["state"] = {"terminated": {"exitCode": written["exitCode"]}}
        status["containerStatuses"] = [one]
    return status
