"""nats-py's client, made to take a broken link for what it is: the end of one socket.

Services run on uvloop, whose closed sockets raise a RuntimeError when they are written to;
asyncio's take it in silence. nats-py expects an OSError. The RuntimeError went through it to
whoever was publishing at that moment, which ended the whole service, or it ended the task
that reconnects, which left the service without a bus for good.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport


class _Socket(TcpTransport):
    """One that says it when it is closed, and the same way on every event loop."""

    def write(self, payload: bytes) -> None:
        self._ensure_open()
        super().write(payload)

    def writelines(self, payload: list[bytes]) -> None:
        self._ensure_open()
        super().writelines(payload)

    def _ensure_open(self) -> None:
        if self._io_writer is None or self._io_writer.transport.is_closing():
            raise ConnectionResetError("the socket is closed")

    def __bool__(self) -> bool:
        return True  # nats-py makes one of its own in place of one that is not connected yet

    def abort(self) -> None:
        if self._io_writer is not None:
            self._io_writer.transport.abort()


async def _ended(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel them until they have ended: one cancellation may get lost."""
    running = [task for task in tasks if not task.done()]
    while running:
        for task in running:
            task.cancel()
        _, late = await asyncio.wait(running, timeout=0.1)
        running = list(late)


class AbruptClient(Client):
    """nats-py's client, without what it does after a link has broken.

    It closes the socket politely, that is it waits until the peer has taken what is buffered.
    A peer that is frozen or unreachable never does, and no reconnect is tried meanwhile. And
    it keeps unsent messages and sends them after the reconnect. And the socket and the tasks of
    an attempt to reconnect that fails half way it forgets, alive, when it tries again. And an
    attempt that succeeds just when the connection is closed goes on, because `asyncio.wait_for`
    loses its cancellation then. So does an attempt whose link breaks again at once: another one
    is begun beside it, and only that one is known afterwards.
    """

    def __init__(self) -> None:
        super().__init__()
        self._attempts: set[asyncio.Task[Any]] = set()

    async def _connect_to_server(self, s: Srv) -> None:
        self._drop_socket()
        self._drop_tasks()
        if s.uri.scheme not in {"ws", "wss"}:
            self._transport = _Socket()
        await super()._connect_to_server(s)

    async def _process_op_err(self, e: Exception) -> None:
        if self.is_connected:
            self._abandon()
        await super()._process_op_err(e)

    async def _flush_pending(self, force_flush: bool = False) -> Any:  # noqa: FBT001, FBT002
        try:
            return await super()._flush_pending(force_flush)
        except OSError as lost:
            if asyncio.current_task() is self._reconnection_task:
                raise  # it tries again by itself
            await self._process_op_err(lost)

    async def _ping_interval(self) -> None:
        try:
            await super()._ping_interval()
        except OSError as lost:
            await self._process_op_err(lost)

    async def _close(self, status: int, do_cbs: bool = True) -> None:  # noqa: FBT001, FBT002
        if not self.is_closed:
            self._abandon()
        await super()._close(status, do_cbs)

    def _abandon(self) -> None:
        """Let go of the socket and of everything that is not on the wire yet."""
        self._pending.clear()
        self._pending_data_size = 0
        self._drop_socket()

    async def _attempt_reconnect(self) -> None:
        await _ended(self._attempts)
        if (this := asyncio.current_task()) is not None:
            self._attempts.add(this)
            this.add_done_callback(self._attempts.discard)
        await super()._attempt_reconnect()

    async def end_reconnecting(self) -> None:
        """Once closed, stay closed."""
        newest = self._reconnection_task
        await _ended(self._attempts if newest is None else {*self._attempts, newest})
        # An attempt that came to its end meanwhile has opened the connection once more.
        self._status = Client.CLOSED
        self._drop_tasks()
        self._drop_socket()
        await asyncio.sleep(0)  # what was aborted is closed by then

    def _drop_tasks(self) -> None:
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()

    def _drop_socket(self) -> None:
        if isinstance(self._transport, _Socket):
            self._transport.abort()
