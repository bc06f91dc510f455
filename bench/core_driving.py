"""Drive a scheduler's core as its service does: facts as they lie on the bus in, bytes out."""

import gc
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from stromboli.api.kinds import kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.projections import encode_projection
from stromboli.contracts import codec
from stromboli.contracts.facts import ObjectSeen
from stromboli.contracts.intents import BindGang, EvictPod
from stromboli.contracts.stimuli import FactChanged, Instruction, Probe, Ready, WakeAt, WokeUp
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.fact_reading import FactReader

__all__ = ["NOW", "Driver", "packed"]

NOW: Final = 1_893_456_000.0
_PORTION: Final = 500
"""Facts that the service tells its core at once."""


class Driver:
    """One core, and how many pods it has asked to be bound and to go."""

    def __init__(self, conf: SchedulingConf) -> None:
        self.core = SchedulerCore(conf)
        self.bound = 0
        self.evicted = 0
        self._read = FactReader(conf.scheduler_names)

    # What is timed.

    def tell(self, facts: Iterable[bytes]) -> None:
        left = iter(facts)
        while portion := list(islice(left, _PORTION)):
            self.core.handle_all([self._decoded(packed) for packed in portion], now=NOW)

    def decide(self) -> None:
        """One cycle, and what came of it as bytes."""
        self._encode(self.core.handle(WokeUp(), now=NOW))

    def begin(self) -> None:
        """Everything is known: the first cycle."""
        self._encode(self.core.handle(Ready(), now=NOW))

    def placed_in(self, facts: list[bytes], *, expect: int) -> float:
        """How long it takes from these facts to their binds, in seconds."""
        gc.collect()
        before = self.bound
        started = time.perf_counter()
        self.tell(facts)
        self.decide()
        took = time.perf_counter() - started
        if self.bound - before != expect:
            raise RuntimeError(f"{expect} pods should have been bound, {self.bound - before} were")
        return took

    # What is not.

    def know(self, items: Iterable[KubeObject]) -> None:
        self.tell(packed(items))

    def settle(self) -> None:
        """Let the core do what it has to do before the clock runs."""
        for _ in range(3):
            asked = self.core.handle(WokeUp(), now=NOW)
            if not any(isinstance(one, WakeAt) and one.at <= NOW for one in asked):
                return

    def forget(self, item: KubeObject) -> None:
        """The object is gone."""
        metadata = item.metadata
        self.core.handle(
            FactChanged(
                kind=kind_of(item).token,
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
                resource_version="2",
            ),
            now=NOW,
        )

    def _decoded(self, packed: bytes) -> FactChanged:
        fact = codec.facts.decode(packed)
        if not isinstance(fact, ObjectSeen):
            raise TypeError("every fact here is of an object")
        return FactChanged(
            kind=fact.kind,
            namespace=fact.namespace,
            name=fact.name,
            uid=fact.uid,
            resource_version=fact.resource_version,
            after=self._read(fact.kind, fact.projection),
        )

    def _encode(self, instructions: Iterable[Instruction]) -> None:
        for one in instructions:
            if not isinstance(one, WakeAt | Probe):
                codec.encode(one)
            if isinstance(one, BindGang):
                self.bound += len(one.binds)
            elif isinstance(one, EvictPod):
                self.evicted += 1


def packed(items: Iterable[KubeObject]) -> Iterator[bytes]:
    """The objects as they lie on the bus."""
    for item in items:
        metadata = item.metadata
        fact = ObjectSeen(
            kind=kind_of(item).token,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version="1",
            projection=msgspec.Raw(encode_projection(item)),
            cause="bench",
        )
        yield codec.encode(fact)
