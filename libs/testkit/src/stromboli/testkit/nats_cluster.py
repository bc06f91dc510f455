"""Three real nats-servers on this machine that are one JetStream cluster.

A test may kill, freeze and restart each member, and move the leader of a stream, as it may in
production. No port is chosen by us: a member is told where those before it listen, and the
others find it through them. So parallel runs never meet, as with a single server.
"""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from stromboli.runtime.bus.connection import BusConnection, BusSettings, connect
from stromboli.runtime.bus.errors import BusError
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

__all__ = ["NatsCluster"]

_MEMBERS: Final = 3
_ELECTED_S: Final = 60.0
"""An election takes four to nine seconds, and several of them when the machine is busy."""

_NOWHERE: Final = "nats://127.0.0.1:1"
"""A route to nobody. It counts as a member: the first one must not think it is alone."""

_CLUSTER: Final = """\
server_name: "{name}"
cluster {{
  name: "test"
  host: 127.0.0.1
  port: {port}
  routes: [{routes}]
}}
"""


class _Peer(msgspec.Struct):
    name: str
    current: bool = False
    offline: bool = False


class _Replication(msgspec.Struct):
    leader: str = ""
    replicas: list[_Peer] = []


class _Answer(msgspec.Struct):
    cluster: _Replication | None = None
    error: dict[str, Any] | None = None
    success: bool = False


class NatsCluster:
    """The members, each a `NatsServer` that may be hurt by itself."""

    def __init__(self, directory: Path) -> None:
        names = [f"nats-{number}" for number in range(1, _MEMBERS + 1)]
        self.members = tuple(NatsServer(directory / name, name=name) for name in names)

    @property
    def url(self) -> str:
        """All members, as an operator names them to a service."""
        return ",".join(member.url for member in self.members)

    async def start(self) -> None:
        """Start the members; return when JetStream has a leader that knows all of them."""
        for member in self.members:
            await self.start_member(member)
        async with self.asking() as connection:
            await eventually(
                lambda: _formed(connection),
                deadline_s=_ELECTED_S,
                interval_s=0.1,
                describe="JetStream to be formed by all members",
            )

    async def start_member(self, member: NatsServer) -> None:
        """Start one that is new, or that was killed or stopped."""
        others = [other for other in self.members if other is not member]
        routes = ", ".join(f'"{_route_to(other)}"' for other in others)
        member.config = _CLUSTER.format(
            name=member.name, port=member.route_port or -1, routes=routes
        )
        await member.start()

    async def leader_of(self, stream: str) -> NatsServer:
        """The member that leads a stream, once there is one that is not frozen."""
        async with self.asking() as connection:
            return await eventually(
                lambda: self._leader(connection, stream),
                deadline_s=_ELECTED_S,
                interval_s=0.1,
                describe=f"a leader of {stream}",
            )

    async def followers_of(self, stream: str) -> tuple[NatsServer, ...]:
        """The members that do not lead a stream."""
        leader = await self.leader_of(stream)
        return tuple(member for member in self.members if member is not leader)

    async def move_leader(self, stream: str) -> NatsServer:
        """Make the leader of a stream step down; the member that leads afterwards."""
        former = await self.leader_of(stream)

        async def moved() -> NatsServer | None:
            leader = await self._leader(connection, stream)
            if leader is former:
                await _ask(connection, f"STREAM.LEADER.STEPDOWN.{stream}")
            return None if leader is former else leader

        async with self.asking() as connection:
            return await eventually(
                moved, deadline_s=_ELECTED_S, interval_s=0.2, describe=f"{stream} to move"
            )

    async def until_current(self, stream: str) -> None:
        """Return when every member has all that the leader of a stream has."""

        async def current() -> bool:
            answer = await _ask(connection, f"STREAM.INFO.{stream}")
            peers = [] if answer is None or answer.cluster is None else answer.cluster.replicas
            return len(peers) == _MEMBERS - 1 and all(
                peer.current and not peer.offline for peer in peers
            )

        async with self.asking() as connection:
            await eventually(
                current, deadline_s=_ELECTED_S, interval_s=0.1, describe=f"{stream} everywhere"
            )

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncGenerator[BusConnection]:
        """A connection to a member that answers."""
        member = next(member for member in self.members if member.answering)
        async with connect(BusSettings(url=member.url), "gateway") as connection:
            yield connection

    async def _leader(self, connection: BusConnection, stream: str) -> NatsServer | None:
        answer = await _ask(connection, f"STREAM.INFO.{stream}")
        if answer is None or answer.cluster is None:
            return None
        name = answer.cluster.leader
        return next((one for one in self.members if one.name == name and one.answering), None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.kill()


async def _ask(connection: BusConnection, call: str) -> _Answer | None:
    """What JetStream answers; None when it can't answer now."""
    try:
        raw = await connection.request(f"$JS.API.{call}", b"", timeout_s=1.0)
    except BusError:
        return None
    return msgspec.json.decode(raw.data, type=_Answer)


async def _formed(connection: BusConnection) -> bool:
    """Can a stream be kept by every member? Make one and remove it again."""
    config = {"name": "FORMED", "subjects": ["formed"], "num_replicas": _MEMBERS}
    body = msgspec.json.encode({**config, "storage": "memory"})
    try:
        raw = await connection.request("$JS.API.STREAM.CREATE.FORMED", body, timeout_s=2.0)
        made = msgspec.json.decode(raw.data, type=_Answer).error is None
        await connection.request("$JS.API.STREAM.DELETE.FORMED", b"", timeout_s=2.0)
    except BusError:
        return False
    return made


def _route_to(member: NatsServer) -> str:
    port = member.route_port
    return _NOWHERE if port is None else f"nats://127.0.0.1:{port}"
