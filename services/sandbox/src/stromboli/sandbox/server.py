"""The server assembled: store, journal, API, HTTP, and the workers beside them.

    async with SandboxServer(config) as server:
        server.url, server.ca, server.token

Leaving the block stops it in order: no new connections, watches ended, requests finished,
workers cancelled, journal flushed and closed.
"""

import asyncio
import contextlib
import logging
import ssl
from pathlib import Path
from typing import Final, Self

from stromboli.sandbox.admin import Admin
from stromboli.sandbox.api import Api
from stromboli.sandbox.audit import AuditLog
from stromboli.sandbox.bootstrap import Bootstrap, definitions_in
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.certificates import ServerFiles, pki_in
from stromboli.sandbox.cleanup import Cleanup
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.collector import Collector
from stromboli.sandbox.config import SandboxConfig
from stromboli.sandbox.deleting import Deleter
from stromboli.sandbox.discovery import Discovery
from stromboli.sandbox.endpoints import Endpoints
from stromboli.sandbox.http import HttpFront, StatusServer
from stromboli.sandbox.journal import Journal
from stromboli.sandbox.kubeconfig import write_kubeconfig
from stromboli.sandbox.owners import Owners
from stromboli.sandbox.recovery import objects_for_snapshot, recover
from stromboli.sandbox.remote import Remote
from stromboli.sandbox.requests import User
from stromboli.sandbox.store import Store
from stromboli.sandbox.tokens import ADMIN, admin_token, token_users
from stromboli.sandbox.watching import WatchHub
from stromboli.sandbox.webhooks.calling import Caller
from stromboli.sandbox.webhooks.hooks import Hooks
from stromboli.sandbox.webhooks.reviewing import Admission
from stromboli.sandbox.writing import Writer

__all__ = ["SandboxServer"]

_LOG: Final = logging.getLogger("stromboli.sandbox.server")
_STOP_S: Final = 5.0
_SNAPSHOT_CHECK_S: Final = 2.0
_HEADER_BYTES: Final = 64 * 1024


class SandboxServer:
    def __init__(self, config: SandboxConfig, clock: Clock | None = None) -> None:
        self._config = config.checked()
        self._clock = clock or Clock()
        self.url = ""
        self.token = ""
        self.ca: Path | None = None
        """The certificate to trust; None without TLS."""
        self.pki: ServerFiles | None = None

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await self._start(stack)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """Open everything in order; the stack closes it in the opposite one."""
        config, clock = self._config, self._clock
        self._journal = Journal(
            config.data_dir, fsync=config.fsync, snapshot_bytes=config.snapshot_bytes
        )
        stack.push_async_callback(self._journal.close)
        self._store = store = Store(window=config.watch_window, journal=self._journal)
        recover(self._journal, store)
        catalogue = Catalogue(store)
        owners = Owners(store, catalogue)
        endpoints = Endpoints(store)
        caller = Caller(endpoints)
        stack.push_async_callback(caller.close)
        admission = Admission(store, Hooks(store, catalogue), caller)
        writer = Writer(store, clock, admission)
        deleter = Deleter(store, catalogue, clock, admission)
        self._hub = WatchHub(store, max_events=config.watch_buffer)
        self._collector = Collector(store, owners, deleter, catalogue)
        self._cleanup = Cleanup(store, catalogue, deleter, self._hub)
        bootstrap = Bootstrap(store, catalogue, Writer(store, clock))
        await bootstrap.furnish()
        if config.crds is not None:
            await bootstrap.install(definitions_in(config.crds))
        tokens = self._tokens()
        audit_path = config.audit_log or config.data_dir / "audit.log"
        audit = AuditLog(audit_path, clock, max_bytes=config.audit_max_bytes)
        stack.callback(audit.close)
        api = Api(
            store,
            catalogue,
            writer=writer,
            deleter=deleter,
            hub=self._hub,
            clock=clock,
            admission=admission,
            endpoints=endpoints,
            tokens=tokens,
        )
        remote = Remote()
        stack.push_async_callback(remote.close)
        front = HttpFront(
            api,
            discovery=Discovery(catalogue),
            admin=Admin(store),
            hub=self._hub,
            remote=remote,
            journal=self._journal,
            audit=audit,
            tokens=tokens,
            max_body_bytes=config.max_body_bytes,
            watch_timeout_s=config.watch_timeout_s,
        )
        self._work = asyncio.create_task(self._run_workers(), name="sandbox-workers")
        stack.push_async_callback(self._stop_workers)
        await self._listen(front)
        stack.push_async_callback(self._stop_serving)

    def _tokens(self) -> dict[str, User]:
        directory = self._config.data_dir / "pki"
        self.token = admin_token(directory / "admin.token")
        return {**token_users(self._config.token_file), self.token: ADMIN}

    async def _listen(self, front: HttpFront) -> None:
        config = self._config
        context: ssl.SSLContext | None = None
        if config.tls:
            self.pki = pki_in(config.data_dir / "pki", config.host)
            self.ca = self.pki.ca
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.pki.certificate, self.pki.key)
            context.load_verify_locations(self.pki.ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        # A watch whose client left must end, so handlers are cancelled on disconnect. Writes
        # are safe: after the last look at the current object there is no await until the commit.
        self._http = StatusServer(
            front.handle,
            handler_cancellation=True,
            access_log=None,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        loop = asyncio.get_running_loop()
        self._socket = await loop.create_server(
            self._http, config.host, config.port, ssl=context, backlog=1024
        )
        port = self._socket.sockets[0].getsockname()[1]
        self.url = f"{'https' if config.tls else 'http'}://{config.host}:{port}"
        if config.kubeconfig_out is not None:
            write_kubeconfig(config.kubeconfig_out, url=self.url, ca=self.ca, token=self.token)
        if config.kubeconfigs_out is not None:
            for token, user in token_users(config.token_file).items():
                path = config.kubeconfigs_out / user.name
                write_kubeconfig(path, url=self.url, ca=self.ca, token=token, user=user.name)

    async def _run_workers(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collector.run(), name="collector")
            group.create_task(self._cleanup.run(), name="cleanup")
            group.create_task(self._hub.send_bookmarks(self._config.bookmark_interval_s))
            group.create_task(self._take_snapshots(), name="snapshots")
            if self._config.fsync == "interval":
                group.create_task(self._journal.sync_every(self._config.fsync_interval_s))

    async def _take_snapshots(self) -> None:
        while True:
            await asyncio.sleep(_SNAPSHOT_CHECK_S)
            if self._journal.wants_snapshot:
                await self.snapshot()

    async def snapshot(self) -> None:
        """Write all objects down and drop the journal that led to them."""
        objects = objects_for_snapshot(self._store)
        await self._journal.snapshot(self._store.revision, objects)
        _LOG.info("journal.snapshot", extra={"objects": len(objects)})

    async def wait_failed(self) -> None:
        """Return only by raising, should a worker die; otherwise wait to be cancelled."""
        await asyncio.shield(self._work)

    async def _stop_serving(self) -> None:
        self._socket.close()
        self._hub.close_all()
        await self._http.shutdown(_STOP_S)

    async def _stop_workers(self) -> None:
        self._work.cancel()
        await asyncio.wait({self._work}, timeout=_STOP_S)
        if self._work.done() and not self._work.cancelled():
            self._work.result()
