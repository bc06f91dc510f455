"""A cluster that does what the core asks, at once and in memory.

It stands where API server, gateway and bus stand otherwise: objects in, facts to the core,
intents applied, outcomes and new facts back, until nothing more is asked. Time is a number that
moves only when told to. Binds and evictions may be refused by a rule, to see what the core makes
of it; pods that are told to go may take their time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from stromboli.api.kinds import KINDS, kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.timestamps import format_time
from stromboli.contracts.intents import (
    BindGang,
    CreateObject,
    EvictPod,
    Intent,
    PatchObject,
    PatchType,
    PodBinding,
    Verb,
)
from stromboli.contracts.outcomes import Applied, GangBound, PodBound, Reason, Refused
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.stimuli import (
    Core,
    FactChanged,
    Instruction,
    OutcomeHeard,
    Ready,
    Stimulus,
    WakeAt,
    WokeUp,
)

__all__ = ["Simulation"]

Place: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""

_MOST_ROUNDS = 10_000


@dataclass(slots=True)
class Simulation:
    """One cluster and the core that decides about it."""

    core: Core
    now: float = 1_893_456_000.0
    may_bind: Callable[[PodBinding], bool] = lambda _: True
    may_evict: Callable[[EvictPod], bool] = lambda _: True
    lingering: bool = False
    """Whether pods that are told to go stay, ending, until `end_pods`."""
    objects: dict[Place, Any] = field(default_factory=dict[Place, Any])
    intents: list[Intent] = field(default_factory=list[Intent])
    """Everything that was asked, in order."""
    history: list[HistoryRecorded] = field(default_factory=list[HistoryRecorded])
    binds: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    evictions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Kubernetes events that were told."""
    _version: int = 0
    _versions: dict[Place, int] = field(default_factory=dict[Place, int])
    _stimuli: list[Stimulus] = field(default_factory=list[Stimulus])
    _wake_at: float = float("inf")
    _started: bool = False

    # What happens to the cluster.

    def put(self, item: KubeObject) -> None:
        """An object appears or changes."""
        metadata = item.metadata
        place = (kind_of(item).token, metadata.namespace, metadata.name)
        before = self.objects.get(place)
        self.objects[place] = item
        self._version += 1
        self._versions[place] = self._version
        self._stimuli.append(self._fact(place, item, before=before))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        place = (kind, namespace, name)
        last = self.objects.pop(place)
        self._version += 1
        self._versions[place] = self._version
        self._stimuli.append(self._fact(place, None, before=last, last=last))

    def get(self, kind: str, namespace: str, name: str) -> Any:
        return self.objects[kind, namespace, name]

    def _fact(
        self, place: Place, after: Any, *, before: Any = None, last: Any = None
    ) -> FactChanged:
        kind, namespace, name = place
        return FactChanged(
            kind=kind,
            namespace=namespace,
            name=name,
            uid=(after or last).metadata.uid,
            resource_version=str(self._versions[place]),
            before=before,
            after=after,
            last=last,
        )

    # Running it.

    def run(self) -> None:
        """Until the core has nothing more to say now."""
        if not self._started:
            self._started = True
            self._stimuli.append(Ready())
        for _ in range(_MOST_ROUNDS):
            if self._wake_at <= self.now:
                self._wake_at = float("inf")
                self._stimuli.append(WokeUp())
            batch, self._stimuli = self._stimuli, []
            if not batch:
                return
            for stimulus in batch:
                self._perform(self.core.handle(stimulus, now=self.now))
        raise RuntimeError(f"the core did not come to rest within {_MOST_ROUNDS} rounds")

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping wherever the core wants to be woken."""
        end = self.now + seconds
        while self._wake_at <= end:
            self.now = max(self.now, self._wake_at)
            self.run()
        self.now = end

    def restart(self, core: Core) -> None:
        """A new core learns everything from the facts alone."""
        self.core = core
        self._wake_at = float("inf")
        order = {kind.token: number for number, kind in enumerate(KINDS)}
        places = sorted(self.objects, key=lambda place: (order[place[0]], place))
        self._stimuli = [self._fact(place, self.objects[place]) for place in places]
        self._started = False
        self.run()

    # What the core asks for.

    def _perform(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case WakeAt(at):
                    self._wake_at = min(self._wake_at, at)
                case HistoryRecorded():
                    self.history.append(instruction)
                case BindGang():
                    self.intents.append(instruction)
                    self._bind(instruction)
                case PatchObject():
                    self.intents.append(instruction)
                    self._patch(instruction)
                case EvictPod():
                    self.intents.append(instruction)
                    self._evict(instruction)
                case CreateObject(kind="event"):
                    self.events.append(msgspec.json.decode(instruction.manifest))
                    self._version += 1
                    self._applied(instruction, self._version)
                case _:
                    raise TypeError(f"a scheduler does not ask for {instruction!r}")

    def _bind(self, intent: BindGang) -> None:
        pods: list[PodBound] = []
        for bind in intent.binds:
            bound = self.may_bind(bind)
            if bound:
                pod = self.get("pod", intent.namespace, bind.name)
                self.put(replace(pod, spec=replace(pod.spec, node_name=bind.node)))
                self.binds[intent.namespace, bind.name] = bind.node
            pods.append(
                PodBound(
                    name=bind.name,
                    uid=bind.uid,
                    node=bind.node,
                    bound=bound,
                    reason=None if bound else Reason.STALE,
                    message="" if bound else "the rule of the simulation refuses it",
                )
            )
        outcome = GangBound(
            **_about(intent),
            namespace=intent.namespace,
            name=intent.name,
            attempt=intent.attempt,
            part=intent.part,
            parts=intent.parts,
            pods=tuple(pods),
        )
        self._hear(outcome)

    def _evict(self, intent: EvictPod) -> None:
        if not self.may_evict(intent):
            self._refuse(intent, Reason.STALE, "the rule of the simulation refuses it")
            return
        self.evictions.append((intent.namespace, intent.name))
        if self.lingering:
            pod = self.get("pod", intent.namespace, intent.name)
            moment = format_time(datetime.fromtimestamp(self.now, tz=UTC))
            self.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=moment)))
        else:
            self.delete("pod", intent.namespace, intent.name)
        self._applied(intent, self._version)

    def end_pods(self) -> None:
        """Those that were told to go are gone."""
        for kind, namespace, name in list(self.objects):
            if kind == "pod" and self.objects[kind, namespace, name].metadata.deletion_timestamp:
                self.delete(kind, namespace, name)

    def _patch(self, intent: PatchObject) -> None:
        item = self.objects.get((intent.kind, intent.namespace, intent.name))
        if item is None:
            self._refuse(intent, Reason.NOT_FOUND, "it is gone")
            return
        body: dict[str, Any] = msgspec.json.decode(intent.patch)["status"]
        standing: dict[str, Any] = msgspec.to_builtins(item.status)
        if intent.patch_type is PatchType.APPLY:
            body = {**body, "conditions": _by_type(standing, body)}
        status = _merged(standing, body)
        self.put(replace(item, status=msgspec.convert(status, type(item.status))))
        self._applied(intent, self._version)

    def _applied(self, intent: PatchObject | EvictPod | CreateObject, version: int) -> None:
        self._hear(
            Applied(
                **_about(intent),
                namespace=intent.namespace,
                name=intent.name,
                uid="" if isinstance(intent, CreateObject) else intent.uid,
                resource_version=str(version),
            )
        )

    def _refuse(self, intent: PatchObject | EvictPod, reason: Reason, message: str) -> None:
        self._hear(
            Refused(
                **_about(intent),
                namespace=intent.namespace,
                name=intent.name,
                reason=reason,
                message=message,
            )
        )

    def _hear(self, outcome: Applied | GangBound | Refused) -> None:
        self._stimuli.append(OutcomeHeard(outcome))


def _merged(standing: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A JSON merge patch: null takes a key out, mappings are merged, all else is replaced."""
    merged = dict(standing)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below: Any = merged.get(key)
            merged[key] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _by_type(standing: dict[str, Any], applied: dict[str, Any]) -> list[Any]:
    """Conditions as a server applies them: those of the same type are replaced."""
    conditions = {one["type"]: one for one in standing.get("conditions", ())}
    conditions.update({one["type"]: one for one in applied.get("conditions", ())})
    return list(conditions.values())


def _about(intent: Intent) -> dict[str, Any]:
    return {
        "intent_id": intent.id,
        "service": intent.service,
        "verb": Verb(intent.verb),
        "kind": intent.kind,
        "key": intent.key,
    }
