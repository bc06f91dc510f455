"""The certificate we serve with, swapped under open connections when its files change.

The listener's own TLS context never changes: at each new handshake it hands over to the newest
one that could be loaded, whole, from the files. So a certificate and a key that do not belong
together (a rotation caught half way) never serve; the old pair does, until the next look.
Connections that are open keep what they were made with.
"""

import asyncio
import datetime as dt
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509

from stromboli.admission.errors import UnusableCertificate
from stromboli.runtime.logs import get_logger
from stromboli.runtime.quiet import once_per
from stromboli.runtime.telemetry import counter

__all__ = ["ServingCertificate"]

log = get_logger(__name__)
quiet_log = once_per(30.0, log)

_reloads = counter(
    "stromboli.admission.certificate.loads", "Certificates loaded", labels=["outcome"]
)

_Stamp = tuple[tuple[int, int, int], ...]
"""Of each file: its inode, size and time of change. A mounted Secret changes the first."""


@dataclass(slots=True)
class ServingCertificate:
    """A pair of files, and the TLS context that serves with them."""

    certificate: Path
    key: Path
    look_every_s: float = 1.0
    expires: dt.datetime | None = None
    """When the one we serve with ends; None until there is one."""
    serial: str = ""
    _current: ssl.SSLContext | None = None
    _stamp: _Stamp | None = None
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)

    def not_serving(self, now: dt.datetime) -> str | None:
        """Why no client would accept our certificate, or None."""
        if self.expires is None:
            return f"there is no usable certificate at {self.certificate} yet"
        if now >= self.expires:
            return f"the certificate {self.certificate} ended at {self.expires:%Y-%m-%d %H:%M:%S}Z"
        return None

    async def loaded(self) -> None:
        """Return when there is one."""
        await self._loaded.wait()

    async def watch(self) -> None:
        """Look at the files again and again; ends only by cancellation."""
        while True:
            self.look()
            await asyncio.sleep(self.look_every_s)

    def look(self) -> None:
        """Load the files if they are not those we have; a bad pair is told and left alone."""
        try:
            stamp = _stamp(self.certificate, self.key)
            if stamp == self._stamp:
                return
            self._load()
        except (OSError, ValueError) as problem:
            # ssl.SSLError is an OSError: a pair that does not belong together is one.
            _reloads.add(1, outcome="failed")
            unusable = UnusableCertificate(str(self.certificate), str(self.key), str(problem))
            quiet_log.warning("certificate.unusable", key=str(unusable), problem=str(unusable))
            return
        # Taken before loading: what changed meanwhile is loaded at the next look.
        self._stamp = stamp
        self._loaded.set()
        _reloads.add(1, outcome="loaded")
        log.info("certificate.loaded", serial=self.serial, expires=str(self.expires))

    def _load(self) -> None:
        context = _server_context()
        context.load_cert_chain(self.certificate, self.key)
        leaf = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        self._current = context
        self.expires = leaf.not_valid_after_utc
        self.serial = f"{leaf.serial_number:x}"

    def listening_context(self) -> ssl.SSLContext:
        """For the listener, once: every handshake is handed to the newest certificate."""
        context = _server_context()
        context.sni_callback = self._hand_over
        return context

    def _hand_over(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> None:
        # OpenSSL calls this for each handshake, also when the client names no server.
        if self._current is not None:
            connection.context = self._current


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _stamp(*files: Path) -> _Stamp:
    stats = (file.stat() for file in files)
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)
