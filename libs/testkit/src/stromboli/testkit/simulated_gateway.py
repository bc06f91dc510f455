"""A cluster in memory that carries out intents, and a driver that lets a core live in it.

For tests of cores alone: no bus, no server, no time but what the test says. It does what the
gateway and the API server do as far as a core can tell: uids, resourceVersions, owners and
what ends with them, a grace for pods that run, answers and facts. Every answer and fact is
queued, so a test may hold them back, repeat them, or start the core anew in between.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import msgspec

from stromboli.api import kinds
from stromboli.api.merge_patches import merged
from stromboli.api.projections import projection_of
from stromboli.api.timestamps import format_time
from stromboli.api.wire import read_object
from stromboli.contracts.intents import (
    AnyIntent,
    BindGang,
    CreateObject,
    DeleteObject,
    EvictPod,
    Fence,
    GenerateSecret,
    PatchObject,
)
from stromboli.contracts.outcomes import (
    AnyOutcome,
    Applied,
    GangBound,
    PodBound,
    Reason,
    Refused,
)
from stromboli.contracts.records import REPAIRED, HistoryRecorded
from stromboli.contracts.stimuli import (
    Core,
    FactChanged,
    OutcomeHeard,
    Probe,
    Ready,
    SafetyPass,
    Stimulus,
    WakeAt,
    WokeUp,
)

__all__ = ["CoreDriver", "Manifest", "SimulatedGateway"]

Manifest: TypeAlias = dict[str, Any]
_Place: TypeAlias = tuple[str, str, str]
Check: TypeAlias = Callable[[AnyIntent], tuple[Reason, str] | None]


@dataclass
class SimulatedGateway:
    """Objects as JSON, by (kind, namespace, name)."""

    watched: Iterable[str]
    check: Check = lambda _intent: None
    """May refuse an intent before anything is done."""
    now: float = 1_700_000_000.0
    objects: dict[_Place, Manifest] = field(default_factory=dict[_Place, Manifest])
    stimuli: deque[Stimulus] = field(default_factory=deque[Stimulus])
    applied: list[AnyIntent] = field(default_factory=list[AnyIntent])
    refused: list[Refused] = field(default_factory=list[Refused])
    _version: int = 0
    _uids: int = 0

    # What users, kubelets and the scheduler do.

    def put(self, kind: str, manifest: Manifest) -> Manifest:
        """Create an object, as the API server would."""
        metadata = dict(manifest["metadata"])
        if kinds.by_token(kind).namespaced:
            metadata.setdefault("namespace", "default")
        if "uid" not in metadata:
            self._uids += 1
            metadata["uid"] = f"00000000-0000-4000-8000-{self._uids:012d}"
        metadata["creationTimestamp"] = self._time()
        metadata["generation"] = 1
        place = (kind, metadata.get("namespace", ""), metadata["name"])
        if place in self.objects:
            raise AssertionError(f"{place} exists already")
        return self._write(place, {**manifest, "metadata": metadata})

    def patch(self, kind: str, name: str, body: Manifest, *, namespace: str = "default") -> None:
        place = self._place(kind, namespace, name)
        self._write(place, merged(self.objects[place], body))

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> None:
        """At once, without any grace."""
        self._remove(self._place(kind, namespace, name))

    def release_pods(self) -> list[str]:
        """What kubelets do at the end of the grace: terminating pods disappear."""
        leaving = [
            place
            for place, found in self.objects.items()
            if place[0] == "pod" and "deletionTimestamp" in found["metadata"]
        ]
        for place in leaving:
            self._remove(place)
        return [name for _, _, name in leaving]

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Manifest | None:
        return self.objects.get(self._place(kind, namespace, name))

    def names(self, kind: str) -> list[str]:
        return sorted(name for token, _, name in self.objects if token == kind)

    # What the gateway does.

    def apply(self, intent: AnyIntent) -> None:
        refusal = self.check(intent)
        if refusal is None:
            self.applied.append(intent)
            outcome = self._carry_out(intent)
        else:
            outcome = self._refusal(intent, *refusal)
        if isinstance(outcome, Refused):
            self.refused.append(outcome)
        if outcome is not None:
            self.stimuli.append(OutcomeHeard(outcome))

    def everything(self) -> list[FactChanged]:
        """What a shell feeds a new core with."""
        return [
            self._fact(place, found) for place, found in self.objects.items() if self._shows(place)
        ]

    def _carry_out(self, intent: AnyIntent) -> AnyOutcome | None:
        match intent:
            case CreateObject():
                return self._create(intent, msgspec.json.decode(intent.manifest))
            case GenerateSecret():
                return self._create(intent, _secret(intent))
            case PatchObject():
                return self._patch(intent)
            case DeleteObject() | EvictPod():
                return self._delete(intent)
            case BindGang():
                return self._bind(intent)
            case Fence():
                return None

    def _create(self, intent: CreateObject | GenerateSecret, manifest: Manifest) -> AnyOutcome:
        place = (intent.kind, intent.namespace, intent.name)
        found = self.objects.get(place)
        if found is None:
            return self._done(intent, self.put(intent.kind, manifest)["metadata"])
        owners = [o["uid"] for o in found["metadata"].get("ownerReferences", ())]
        if intent.owner_uid and intent.owner_uid not in owners:
            return self._refusal(intent, Reason.STALE, f"it belongs to {owners}")
        return self._done(intent, found["metadata"], already=True)

    def _patch(self, intent: PatchObject) -> AnyOutcome:
        place = (intent.kind, intent.namespace, intent.name)
        found = self.objects.get(place)
        if found is None or found["metadata"]["uid"] != intent.uid:
            return self._refusal(intent, Reason.STALE, "it is another one")
        written = self._write(place, merged(found, msgspec.json.decode(intent.patch)))
        return self._done(intent, written["metadata"])

    def _delete(self, intent: DeleteObject | EvictPod) -> AnyOutcome:
        place = (intent.kind, intent.namespace, intent.name)
        found = self.objects.get(place)
        gone = {"uid": intent.uid, "resourceVersion": ""}
        if found is None or found["metadata"]["uid"] != intent.uid:
            return self._done(intent, gone, already=True)
        runs = found.get("status", {}).get("phase") == "Running"
        if intent.kind == "pod" and runs:
            mark = {"metadata": {"deletionTimestamp": self._time()}}
            return self._done(intent, self._write(place, merged(found, mark))["metadata"])
        self._remove(place)
        return self._done(intent, gone)

    def _bind(self, intent: BindGang) -> AnyOutcome:
        pods: list[PodBound] = []
        for bind in intent.binds:
            place = ("pod", intent.namespace, bind.name)
            found = self.objects.get(place)
            fits = found is not None and found["metadata"]["uid"] == bind.uid
            free = fits and not cast("Manifest", found).get("spec", {}).get("nodeName")
            if free:
                self._write(place, merged(found, {"spec": {"nodeName": bind.node}}))
            reason = None if free else Reason.STALE
            pods.append(
                PodBound(name=bind.name, uid=bind.uid, node=bind.node, bound=free, reason=reason)
            )
        return GangBound(
            **self._answer(intent),
            namespace=intent.namespace,
            name=intent.name,
            attempt=intent.attempt,
            part=intent.part,
            parts=intent.parts,
            pods=tuple(pods),
        )

    # Objects and facts.

    def _place(self, kind: str, namespace: str, name: str) -> _Place:
        return kind, namespace if kinds.by_token(kind).namespaced else "", name

    def _write(self, place: _Place, manifest: Manifest) -> Manifest:
        self._version += 1
        metadata: Manifest = {**manifest["metadata"], "resourceVersion": str(self._version)}
        before = self.objects.get(place)
        if before is not None and before.get("spec") != manifest.get("spec"):
            metadata["generation"] += 1
        written = {**manifest, "metadata": metadata}
        self.objects[place] = written
        if self._shows(place):
            self.stimuli.append(self._fact(place, written, before))
        return written

    def _remove(self, place: _Place) -> None:
        """And with it, what it owns."""
        ended = self.objects.pop(place)
        self._version += 1
        if self._shows(place):
            read = self._read(place, ended)
            self.stimuli.append(
                FactChanged(
                    **_named(place, ended["metadata"]["uid"], str(self._version)),
                    before=read,
                    last=read,
                )
            )
        for other, found in list(self.objects.items()):
            owners = [o["uid"] for o in found["metadata"].get("ownerReferences", ())]
            if ended["metadata"]["uid"] in owners and other in self.objects:
                self._remove(other)

    def _shows(self, place: _Place) -> bool:
        return place[0] in self.watched

    def _fact(
        self, place: _Place, manifest: Manifest, before: Manifest | None = None
    ) -> FactChanged:
        metadata = manifest["metadata"]
        return FactChanged(
            **_named(place, metadata["uid"], metadata["resourceVersion"]),
            before=None if before is None else self._read(place, before),
            after=self._read(place, manifest),
        )

    def _read(self, place: _Place, manifest: Manifest) -> Any:
        return projection_of(read_object(kinds.by_token(place[0]), manifest))

    def _time(self) -> str:
        return format_time(datetime.fromtimestamp(self.now, UTC))

    # Answers.

    def _answer(self, intent: AnyIntent) -> dict[str, Any]:
        return {
            "intent_id": intent.id,
            "service": intent.service,
            "verb": intent.verb,
            "kind": intent.kind,
            "key": intent.key,
            "at": self.now,
        }

    def _done(
        self,
        intent: CreateObject | GenerateSecret | PatchObject | DeleteObject | EvictPod,
        metadata: Manifest,
        *,
        already: bool = False,
    ) -> Applied:
        return Applied(
            **self._answer(intent),
            namespace=intent.namespace,
            name=intent.name,
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            already=already,
        )

    def _refusal(self, intent: AnyIntent, reason: Reason, message: str) -> Refused:
        return Refused(**self._answer(intent), reason=reason, message=message)


def _named(place: _Place, uid: str, resource_version: str) -> dict[str, Any]:
    kind, namespace, name = place
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "resource_version": resource_version,
    }


def _secret(intent: GenerateSecret) -> Manifest:
    owner = kinds.by_token(intent.owner_kind)
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": intent.owner_name,
        "uid": intent.owner_uid,
        "controller": True,
    }
    metadata = {
        "name": intent.name,
        "namespace": intent.namespace,
        "ownerReferences": [reference],
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "recipe": intent.recipe}


@dataclass
class CoreDriver:
    """Lets a core live in a simulated cluster, one stimulus after the other."""

    gateway: SimulatedGateway
    make_core: Callable[[], Core]
    core: Core = field(init=False)
    history: list[HistoryRecorded] = field(default_factory=list[HistoryRecorded])
    wake_at: list[float] = field(default_factory=list[float])
    _is_due: bool = False
    """The core has asked to be woken at once."""
    forgives: bool = False
    """Whether a decision that fails by a mistake of ours is part of the test."""
    probes: list[Probe] = field(default_factory=list[Probe])
    """What the core asked for; the test answers with `ProbeAnswered`, or does not."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new core, as after a crash: all it knows is what is there."""
        self.gateway.stimuli.clear()
        self.wake_at.clear()
        self.core = self.make_core()
        self.gateway.stimuli.extend([*self.gateway.everything(), Ready()])

    def step(self) -> list[AnyIntent]:
        """Handle the next stimulus; returns what the core asked for, carried out already."""
        intents = self.tell(self.gateway.stimuli.popleft())
        for intent in intents:
            self.gateway.apply(intent)
        return intents

    def tell(self, stimulus: Stimulus) -> list[AnyIntent]:
        """Let the core handle this; what it asks for is not carried out."""
        intents: list[AnyIntent] = []
        for instruction in self.core.handle(stimulus, now=self.gateway.now):
            match instruction:
                case WakeAt(at):
                    self.wake_at.append(at)
                    self._is_due = self._is_due or at <= self.gateway.now
                case HistoryRecorded():
                    self.history.append(instruction)
                    # Cores survive their own mistakes; tests must not.
                    if instruction.what == "decision.failed" and not self.forgives:
                        raise AssertionError(instruction.why)
                case Probe():
                    self.probes.append(instruction)
                case _:
                    intents.append(instruction)
        return intents

    def settle(self, *, at_most: int = 10_000) -> None:
        """Until nothing is left to be handled."""
        for _ in range(at_most):
            if not self.gateway.stimuli:
                if not self._is_due:
                    return
                self._is_due = False
                self.gateway.stimuli.append(WokeUp())
            self.step()
        raise AssertionError(f"the core did not come to rest within {at_most} stimuli")

    def safety_pass(self, *, within_s: float = 0.0) -> None:
        """The core looks at every key once more, beginning now."""
        self.gateway.stimuli.append(SafetyPass(within_s=within_s))
        self.settle()

    @property
    def repaired(self) -> list[str]:
        """Why lines of history speak of what only a safety pass found out."""
        return [line.why for line in self.history if line.what == REPAIRED]

    def wait(self, seconds: float) -> None:
        """Time passes, and the core is woken."""
        self.gateway.now += seconds
        self.gateway.stimuli.append(WokeUp())
        self.settle()
