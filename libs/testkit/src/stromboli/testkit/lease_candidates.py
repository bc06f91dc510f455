"""Processes that want one lease, for tests of who leads and who believes to lead."""

import contextlib
from collections.abc import AsyncGenerator

from stromboli.runtime.bus.leases import Lease, LeaseKeeper
from stromboli.testkit.bus_fixtures import Bus, join
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.tasks import background

__all__ = ["Candidate", "candidates", "keeper"]


def keeper(bus: Bus, holder: str, *, life_s: float = 1.0) -> LeaseKeeper:
    """Keeps the lease of the scheduler."""
    return LeaseKeeper(
        bus.jetstream,
        bus.publisher,
        bus.clock,
        service="scheduler",
        holder=holder,
        life_s=life_s,
    )


class Candidate:
    """A process that leads whenever it can."""

    def __init__(self, bus: Bus, name: str, *, life_s: float = 1.0) -> None:
        self.bus = bus
        self.name = name
        self.keeper = keeper(bus, name, life_s=life_s)
        self.terms: list[Lease] = []
        self.rivals: list[Candidate] = []
        self.overlaps = 0
        """How often it came to lead while a rival still believed that it did."""

    async def run(self) -> None:
        while True:
            async with self.keeper.lead() as lease:
                self.overlaps += sum(rival.leads for rival in self.rivals)
                self.terms.append(lease)
                await lease.lost.wait()

    @property
    def leads(self) -> bool:
        return bool(self.terms) and self.terms[-1].held


@contextlib.asynccontextmanager
async def candidates(
    one: NatsServer, other: NatsServer | None = None, *, life_s: float = 1.0
) -> AsyncGenerator[tuple[Candidate, Candidate]]:
    """Two that want to lead the scheduler, each at its own server if there are two."""
    async with join(one, "scheduler") as here, join(other or one, "scheduler") as there:
        a, b = Candidate(here, "a", life_s=life_s), Candidate(there, "b", life_s=life_s)
        a.rivals, b.rivals = [b], [a]
        async with background(a.run(), b.run()):
            yield a, b
