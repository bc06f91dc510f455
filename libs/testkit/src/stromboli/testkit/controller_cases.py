"""Cases of the controllers other than the job's, as data: what is made, what is expected.

A case is a sentence and steps, in YAML, and is played by one player on any stage: the core
alone with virtual time, or real servers. `{kind/name}` in a text stands for that object's uid,
`{namespace}` for the one it is played in; `ownedBy: kind/name` in a manifest becomes the
reference of a controller. Queues belong to the whole cluster, so no two cases have queues of
the same name.

    - case: a queue closes with its parent
      steps:
        - make: {queue: {metadata: {name: a}}}
        - order: {CloseQueue: a}
        - expect: {queue/a: {status: {state: Closed}}}
        - names: {command: []}
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec
import yaml

from stromboli.api import kinds
from stromboli.testkit.job_scenario import JobScenario
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.sample_jobs import Manifest
from stromboli.testkit.waiting import eventually

__all__ = ["ControllerCase", "CoreStage", "LiveStage", "Stage", "play", "read_cases"]

_UID: Final = re.compile(r"\{([a-z0-9]+)/([-a-z0-9.]+)\}")


class ControllerCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: str
    steps: tuple[dict[str, Any], ...]
    plays: tuple[str, ...] = ("core", "live")


def read_cases(folder: Path) -> list[ControllerCase]:
    """Every case of every file in the folder."""
    return [
        case
        for path in sorted(folder.glob("*.yaml"))
        for case in msgspec.convert(yaml.safe_load(path.read_text()), list[ControllerCase])
    ]


class Stage(Protocol):
    """The cluster around the controllers."""

    @property
    def namespace(self) -> str: ...
    async def make(self, kind: str, manifest: Manifest) -> None: ...
    async def change(self, kind: str, name: str, body: Manifest, subresource: str) -> None: ...
    async def remove(self, kind: str, name: str) -> None: ...
    async def fetch(self, kind: str, name: str) -> Manifest | None: ...
    async def names(self, kind: str) -> list[str]: ...
    async def pass_time(self, seconds: float) -> None: ...
    async def crash(self) -> None: ...
    async def until(self, check: Callable[[], Awaitable[None]]) -> None:
        """Until the check raises no AssertionError any more."""
        ...


async def play(case: ControllerCase, stage: Stage) -> None:
    """Play a case to its end."""
    player = _Player(stage)
    for number, step in enumerate(case.steps, start=1):
        for what, detail in step.items():
            try:
                await player.steps[what](detail)
            except AssertionError as fault:
                raise AssertionError(f"{case.case}: step {number}, {what}: {fault}") from fault


@dataclass
class _Player:
    stage: Stage
    orders: int = 0
    steps: dict[str, Callable[[Any], Awaitable[None]]] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = {
            "make": self._make,
            "change": self._change,
            "status": self._status,
            "remove": self._remove,
            "order": self._order,
            "wait": self.stage.pass_time,
            "crash": lambda _nothing: self.stage.crash(),
            "expect": self._expect,
            "names": self._names,
        }

    async def _make(self, detail: dict[str, Manifest]) -> None:
        for kind, manifest in detail.items():
            await self.stage.make(kind, await self._filled(dict(manifest)))

    async def _change(self, detail: dict[str, Manifest]) -> None:
        for which, body in detail.items():
            await self.stage.change(*_split(which), await self._filled(body), "")

    async def _status(self, detail: dict[str, Manifest]) -> None:
        for which, status in detail.items():
            kind, name = _split(which)
            has_own = kinds.by_token(kind).status_subresource
            body = await self._filled({"status": status})
            await self.stage.change(kind, name, body, "status" if has_own else "")

    async def _remove(self, detail: dict[str, str]) -> None:
        for kind, name in detail.items():
            await self.stage.remove(kind, cast("str", await self._filled(name)))

    async def _order(self, detail: dict[str, str]) -> None:
        """A Command to a queue."""
        for action, queue in detail.items():
            self.orders += 1
            target = {
                "apiVersion": kinds.QUEUE.api_version,
                "kind": "Queue",
                "name": queue,
                "uid": await self._uid("queue", queue),
            }
            metadata = {"name": f"order-{self.orders}"}
            command = {"metadata": metadata, "action": action, "target": target}
            await self.stage.make("command", command)

    async def _expect(self, detail: dict[str, Any]) -> None:
        async def check() -> None:
            for which, wanted in detail.items():
                kind, name = _split(cast("str", await self._filled(which)))
                _compare(await self._filled(wanted), await self.stage.fetch(kind, name), which)

        await self.stage.until(check)

    async def _names(self, detail: dict[str, list[str]]) -> None:
        async def check() -> None:
            for kind, wanted in detail.items():
                found = sorted(await self.stage.names(kind))
                names = sorted(cast("list[str]", await self._filled(wanted)))
                assert found == names, f"{kind}: {found}, not {names}"

        await self.stage.until(check)

    async def _uid(self, kind: str, name: str) -> str:
        found = await self.stage.fetch(kind, name)
        assert found is not None, f"there is no {kind} {name}"
        return str(found["metadata"]["uid"])

    async def _filled(self, value: Any) -> Any:
        """With uids in their places."""
        if isinstance(value, str):
            for kind, name in _UID.findall(value):
                value = value.replace(f"{{{kind}/{name}}}", await self._uid(kind, name))
            return value.replace("{namespace}", self.stage.namespace)
        if isinstance(value, list):
            return [await self._filled(one) for one in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        filled = {k: await self._filled(v) for k, v in cast("Manifest", value).items()}
        owner = filled.pop("ownedBy", None)
        if owner is not None:
            kind, name = _split(owner)
            registered = kinds.by_token(kind)
            reference = {
                "apiVersion": registered.api_version,
                "kind": registered.kind,
                "name": name,
                "uid": await self._uid(kind, name),
                "controller": True,
            }
            filled["ownerReferences"] = [reference]
        return filled


def _split(which: str) -> tuple[str, str]:
    kind, _, name = which.partition("/")
    return kind, name


def _compare(wanted: Any, found: Any, where: str) -> None:
    """Everything that is wanted is there; null stands for what must not be."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in cast("Manifest", wanted).items():
            _compare(value, cast("Manifest", found).get(key), f"{where}.{key}")
    else:
        assert found == wanted, f"{where} is {found!r}, not {wanted!r}"


@dataclass
class CoreStage:
    """A core in a simulated cluster."""

    scenario: JobScenario
    namespace: str = "default"

    async def make(self, kind: str, manifest: Manifest) -> None:
        self.scenario.gateway.put(kind, manifest)
        self.scenario.settle()

    async def change(self, kind: str, name: str, body: Manifest, subresource: str) -> None:
        _ = subresource
        self.scenario.gateway.patch(kind, name, body)
        self.scenario.settle()

    async def remove(self, kind: str, name: str) -> None:
        self.scenario.gateway.delete(kind, name)
        self.scenario.settle()

    async def fetch(self, kind: str, name: str) -> Manifest | None:
        return self.scenario.gateway.get(kind, name)

    async def names(self, kind: str) -> list[str]:
        return self.scenario.gateway.names(kind)

    async def pass_time(self, seconds: float) -> None:
        self.scenario.driver.wait(seconds)

    async def crash(self) -> None:
        self.scenario.driver.start()
        self.scenario.settle()

    async def until(self, check: Callable[[], Awaitable[None]]) -> None:
        await check()


@dataclass
class LiveStage:
    """Real servers and processes; time is real too."""

    cluster: ClusterBuilder
    restart: Callable[[], Awaitable[None]]

    @property
    def namespace(self) -> str:
        return self.cluster.namespace

    async def make(self, kind: str, manifest: Manifest) -> None:
        await self.cluster.make(kind, manifest)

    async def change(self, kind: str, name: str, body: Manifest, subresource: str) -> None:
        await self.cluster.change(kind, name, body, subresource=subresource)

    async def remove(self, kind: str, name: str) -> None:
        await self.cluster.delete(kind, name)

    async def fetch(self, kind: str, name: str) -> Manifest | None:
        return await self.cluster.fetch(kind, name)

    async def names(self, kind: str) -> list[str]:
        return list(await self.cluster.names(kind))

    async def pass_time(self, seconds: float) -> None:
        """Expectations wait for what is expected."""

    async def crash(self) -> None:
        await self.restart()

    async def until(self, check: Callable[[], Awaitable[None]]) -> None:
        async def holds() -> bool:
            await check()
            return True

        await eventually(holds, deadline_s=30, describe="what is expected", interval_s=0.05)
