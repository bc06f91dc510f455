"""Keep admission trusted and reachable: certificates in time, webhook configurations as meant.

Done by the gateway's leader, because it alone writes to Kubernetes. Everything here is looked at
again and again: a certificate that comes of age, a configuration that somebody has changed or
deleted. Whatever fails is told and tried again; following the cluster never waits for it.
"""

import asyncio
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from stromboli.admitting.reviewing import PATHS
from stromboli.gateway.certificate_store import CertificateStore, FolderStore, SecretStore
from stromboli.gateway.certifying import Kept, Lives, advanced, trusted_by
from stromboli.gateway.config import WebhookSettings
from stromboli.gateway.webhooks import WebhookPlan, configurations
from stromboli.kube import KubeClient, PatchType, last_look
from stromboli.kube.errors import KubeError, NotFound
from stromboli.runtime.clock import Clock
from stromboli.runtime.logs import get_logger
from stromboli.runtime.quiet import once_per
from stromboli.runtime.telemetry import counter

__all__ = ["Registering"]

log = get_logger(__name__)
quiet_log = once_per(30.0, log)

_MANAGER: Final = "stromboli-gateway"
_RETRY_S: Final = 1.0

_made = counter("stromboli.certificates.made", "Certificates of admission made", labels=["what"])


class _NotLeading(Exception):
    """Another gateway leads: nothing is written any more."""


@dataclass(slots=True)
class Registering:
    """One turn's keeper of certificates and webhook configurations."""

    settings: WebhookSettings
    kube: KubeClient
    clock: Clock
    may_write: Callable[[], bool]
    problem: str = "the webhooks are not registered yet"
    """Why admission may be out of reach; empty when all is as it should be."""
    _store: CertificateStore | None = None
    _kept: Kept | None = None
    _written: list[object] | None = None
    _written_at: float = float("-inf")
    _trusted: bytes = b""
    _trusted_since: float = float("inf")

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.mode != "keep":
            self.problem = ""
        if settings.ca_file:
            return
        self._store = (
            FolderStore(Path(settings.folder))
            if settings.folder
            else SecretStore(self.kube, settings.namespace, settings.secret)
        )

    async def run(self) -> None:
        """Ends only by cancellation, unless there is nothing to keep."""
        if self.settings.mode == "off":
            return
        while True:
            pause_s = float(self.settings.look_every)
            try:
                with last_look(self._check):
                    await self._look()
            except (KubeError, OSError, ValueError, msgspec.MsgspecError) as failure:
                self.problem = f"the webhooks are not registered: {failure}"
                quiet_log.warning("webhooks.unregistered", key=str(failure), problem=str(failure))
                # What we know may be wrong: somebody else may have written meanwhile.
                self._kept = None
                pause_s = min(pause_s, _RETRY_S)
            else:
                if self.settings.mode == "remove":
                    return
                self.problem = ""
            await asyncio.sleep(pause_s)

    def _check(self) -> None:
        if not self.may_write():
            raise _NotLeading

    async def _look(self) -> None:
        if self.settings.mode == "remove":
            await self._remove()
            return
        authorities = await self._authorities()
        await self._register(authorities)
        if authorities != self._trusted:
            self._trusted, self._trusted_since = authorities, self.clock.monotonic()

    async def _authorities(self) -> bytes:
        """What API servers must trust; the certificates are brought up to date."""
        if self._store is None:
            return _given(self.settings.ca_file)
        if self._kept is None:
            self._kept = await self._store.load()
        before = self._kept
        known_s = self.clock.monotonic() - self._trusted_since
        after = advanced(
            before,
            now=self.clock.now(),
            lives=_lives(self.settings),
            hosts=self.settings.place.hosts,
            is_trusted=trusted_by(before) == self._trusted and known_s >= self.settings.settle,
        )
        if after != before:
            await self._store.save(after)
            self._kept = after
            _tell(before, after)
        return trusted_by(after)

    async def _register(self, authorities: bytes) -> None:
        wanted = configurations(_plan(self.settings), PATHS.values(), authorities)
        now = self.clock.monotonic()
        if self._written == wanted and now - self._written_at < self.settings.compare_every:
            return
        for resource, name, manifest in wanted:
            await self.kube.patch(
                resource,
                None,
                name,
                manifest,
                patch_type=PatchType.APPLY,
                field_manager=_MANAGER,
                force=True,
            )
        if self._written != wanted:
            log.info("webhooks.registered", at=self.settings.url or self.settings.service)
        self._written, self._written_at = list(wanted), now

    async def _remove(self) -> None:
        for resource, name, _ in configurations(_plan(self.settings), (), b""):
            try:
                await self.kube.delete(resource, None, name)
            except NotFound:
                continue
            log.info("webhooks.removed", kind=resource.plural, name=name)


def _given(file: str) -> bytes:
    """Read each time: whoever gives it may rotate it."""
    return Path(file).read_bytes()


def _lives(settings: WebhookSettings) -> Lives:
    return Lives(
        authority=dt.timedelta(seconds=settings.authority_life),
        server=dt.timedelta(seconds=settings.certificate_life),
        overlap=dt.timedelta(seconds=settings.overlap),
    )


def _plan(settings: WebhookSettings) -> WebhookPlan:
    return WebhookPlan(
        place=settings.place,
        scheduler_names=settings.schedulers,
        excluded_namespaces=("kube-system", settings.namespace),
        timeout_s=settings.timeout,
        every_pod=settings.every_pod,
    )


def _tell(before: Kept, after: Kept) -> None:
    if after.authority != before.authority:
        _made.add(1, what="authority")
        log.info("certificates.authority", former_is_trusted=bool(after.former))
    if after.server != before.server:
        _made.add(1, what="server")
        log.info("certificates.server")
    if before.former and not after.former:
        log.info("certificates.former_forgotten")
