"""The real thing for tests: etcd and kube-apiserver as processes on 127.0.0.1.

The binaries come from KUBEBUILDER_ASSETS, from PATH, or from the cache that `make
e2e-assets` fills. Differences to a cluster that tests must know:

- There is no controller-manager: owners are not followed when deleting, a deleted namespace
  stays Terminating, and there are no default service accounts (so that admission is off).
- There is no kubelet and no scheduler: a pod's phase is what the test patches, and a bound pod
  that is deleted gracefully stays until something deletes it with grace period 0.
- Leases have no watch cache, so that compaction is visible in their watches at once.
"""

import os
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import aiohttp
from cryptography.hazmat.primitives.asymmetric import ec

from stromboli.kube import KubeAccess, KubeClient, Limits
from stromboli.testkit.api_server import ServerKind, write_kubeconfig
from stromboli.testkit.certificates import Authority, write_key
from stromboli.testkit.crds import until_custom_kinds_are_usable
from stromboli.testkit.processes import ChildProcess, ProcessFailed
from stromboli.testkit.waiting import NeverHappened, eventually

__all__ = ["KUBE_VERSION", "KubeApiServer", "KubeBinaries", "KubeBinariesMissing", "cache_folder"]

KUBE_VERSION: Final = "1.35.8"
_ETCD_DEADLINE_S: Final = 20.0
_API_DEADLINE_S: Final = 45.0
_PORT_TRIES: Final = 3


class KubeBinariesMissing(Exception):
    """A binary is nowhere; the message says where it was looked for and how to get it."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where `make e2e-assets` puts what it builds."""
    environ = os.environ if environ is None else environ
    cache = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "stromboli" / f"kube-{KUBE_VERSION}"


class KubeBinaries:
    """The executables a control plane is made of."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self.etcd = _find("etcd", environ)
        self.kube_apiserver = _find("kube-apiserver", environ)


def _find(name: str, environ: Mapping[str, str]) -> Path:
    folders = [
        environ.get("KUBEBUILDER_ASSETS", ""),
        environ.get("PATH", ""),
        str(cache_folder(environ)),
    ]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    if found is None:
        raise KubeBinariesMissing(
            f"{name} is neither in $KUBEBUILDER_ASSETS nor in PATH nor in {folders[-1]}; "
            "`make e2e-assets` builds kube-apiserver (etcd: install the package etcd-server)"
        )
    return Path(found).resolve()


class KubeApiServer:
    """One etcd and one kube-apiserver; may be started and ended many times."""

    def __init__(
        self,
        directory: Path,
        *,
        binaries: KubeBinaries | None = None,
        disable_admission: Sequence[str] = ("ServiceAccount",),
        flags: Sequence[str] = (),
    ) -> None:
        """`flags` go to kube-apiserver after ours, and win over them."""
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig.yaml"
        self.certificate_kubeconfig = directory / "certificate-kubeconfig.yaml"
        self.powerless_kubeconfig = directory / "powerless-kubeconfig.yaml"
        self._binaries = binaries or KubeBinaries()
        self._disable_admission = disable_admission
        self._flags = flags
        self._etcd: ChildProcess | None = None
        self._api: ChildProcess | None = None
        self._etcd_port = 0
        self._etcd_peer_port = 0
        self._port = 0
        self._token = secrets.token_urlsafe(24)
        self._powerless_token = secrets.token_urlsafe(24)

    @property
    def kind(self) -> ServerKind:
        return "kube-apiserver"

    @property
    def url(self) -> str:
        if not self._port:
            raise RuntimeError("kube-apiserver has no port yet: it was never started")
        return f"https://127.0.0.1:{self._port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def running(self) -> bool:
        return self._api is not None and self._api.running

    @property
    def pid(self) -> int:
        return self._running_api().pid

    def access(self, *, limits: Limits | None = None) -> KubeAccess:
        return KubeAccess(kubeconfig=str(self.kubeconfig), limits=limits or Limits())

    async def start(self) -> None:
        if self.running:
            raise RuntimeError(f"kube-apiserver is already running (pid {self.pid})")
        if not self.kubeconfig.parent.exists() or not (self.directory / "ca.crt").exists():
            self._write_credentials()
        if self._etcd is None or not self._etcd.running:
            await self._start_etcd()
        await self._start_api()
        async with KubeClient.connect(self.access()) as kube:
            await until_custom_kinds_are_usable(kube)

    async def stop(self) -> None:
        if self._api is not None and self._api.running:
            await self._api.terminate(20.0)

    def kill(self) -> None:
        """Kill kube-apiserver; etcd lives on and keeps the data."""
        if self._api is not None:
            self._api.kill()

    def destroy(self) -> None:
        """Kill both; for the end of a test."""
        self.kill()
        if self._etcd is not None:
            self._etcd.kill()

    async def restart(self, *, hard: bool = False) -> None:
        if hard:
            self.kill()
        else:
            await self.stop()
        await self.start()

    def pause(self) -> None:
        self._running_api().pause()

    def resume(self) -> None:
        self._running_api().resume()

    async def forget_history(self) -> None:
        """Compact etcd, and restart, because a watch cache remembers what etcd forgot."""
        await self.compact()
        await self.restart(hard=True)

    async def compact(self) -> None:
        """Compact etcd to its newest revision; seen at once by leases, which have no cache."""
        async with aiohttp.ClientSession(self.etcd_url) as http:
            # What a compaction keeps is its own revision; a write of ours makes that one useless.
            marker = {"key": "dGVzdGtpdA==", "value": ""}
            async with http.post("/v3/kv/put", json=marker) as answer:
                revision = (await answer.json())["header"]["revision"]
            request = {"revision": revision, "physical": True}
            async with http.post("/v3/kv/compaction", json=request) as answer:
                if answer.status != 200:
                    raise RuntimeError(f"etcd refused to compact: {await answer.text()}")

    def _write_credentials(self) -> None:
        self.authority = Authority(self.directory)
        self._server_keys = self.authority.server("apiserver")
        self._admin = self.authority.user("certificate-admin", "system:masters")
        write_key(ec.generate_private_key(ec.SECP256R1()), self.directory / "accounts.key")
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(
            f'{self._token},token-admin,1,"system:masters"\n{self._powerless_token},powerless,2\n'
        )

    def _write_kubeconfigs(self) -> None:
        url, authority = self.url, self.authority.certificate
        write_kubeconfig(self.kubeconfig, url=url, authority=authority, token=self._token)
        write_kubeconfig(
            self.powerless_kubeconfig, url=url, authority=authority, token=self._powerless_token
        )
        write_kubeconfig(
            self.certificate_kubeconfig,
            url=url,
            authority=authority,
            certificate=self._admin.certificate,
            key=self._admin.key,
        )

    async def _start_etcd(self) -> None:
        for last_try in (False, False, True):
            self._etcd_port = self._etcd_port or _free_port()
            self._etcd_peer_port = self._etcd_peer_port or _free_port()
            peer = f"http://127.0.0.1:{self._etcd_peer_port}"
            child = ChildProcess(
                [
                    self._binaries.etcd,
                    f"--data-dir={self.directory / 'etcd'}",
                    f"--listen-client-urls={self.etcd_url}",
                    f"--advertise-client-urls={self.etcd_url}",
                    f"--listen-peer-urls={peer}",
                    f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=default={peer}",
                    "--logger=zap",
                    "--log-level=warn",
                ],
                name="etcd",
                log=self.directory / "etcd.log",
            )
            self._etcd = child
            try:
                await self._until_healthy(child, f"{self.etcd_url}/health", _ETCD_DEADLINE_S)
            except ProcessFailed:
                child.kill()
                if last_try or "address already in use" not in child.log_text():
                    raise
                self._etcd_port = self._etcd_peer_port = 0
            else:
                return

    async def _start_api(self) -> None:
        for last_try in (False, False, True):
            self._port = self._port or _free_port()
            child = ChildProcess(
                [self._binaries.kube_apiserver, *self._api_flags(), *self._flags],
                name="kube-apiserver",
                log=self.directory / "kube-apiserver.log",
            )
            self._api = child
            try:
                await self._until_healthy(child, f"{self.url}/readyz", _API_DEADLINE_S)
            except ProcessFailed:
                child.kill()
                if last_try or "address already in use" not in child.log_text():
                    raise
                self._port = 0
            else:
                self._write_kubeconfigs()
                return

    def _api_flags(self) -> list[str]:
        folder = self.directory
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self._server_keys.certificate}",
            f"--tls-private-key-file={self._server_keys.key}",
            f"--client-ca-file={self.authority.certificate}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.test",
            f"--service-account-signing-key-file={folder / 'accounts.key'}",
            f"--service-account-key-file={folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={','.join(self._disable_admission)}",
            "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
            # Only a test compacts; the server's own compaction would hit tests at random.
            "--etcd-compaction-interval=0",
            # With it, watches without a version need an etcd newer than distributions have.
            "--feature-gates=WatchList=false",
            "--watch-cache-sizes=leases.coordination.k8s.io#0",
            # A stopping server would otherwise wait for the watches of other tests.
            "--shutdown-delay-duration=0s",
        ]

    async def _until_healthy(self, child: ChildProcess, url: str, deadline_s: float) -> None:
        last = "no answer"

        async def healthy() -> bool:
            nonlocal last
            if not child.running:
                return True  # ends the waiting; the check below says so
            headers = {"Authorization": f"Bearer {self._token}"}
            try:
                # ssl=False: whether the certificate is right is for the client under test.
                async with http.get(url, headers=headers, ssl=False) as answer:
                    last = await answer.text()
                    return answer.status == 200
            except aiohttp.ClientError as error:
                last = repr(error)
                return False

        async with aiohttp.ClientSession() as http:
            try:
                await eventually(healthy, deadline_s=deadline_s, interval_s=0.05)
            except NeverHappened as error:
                what = f"was not healthy within {deadline_s:g} s (last: {last})"
                raise ProcessFailed(child.name, what=what, log=child.log_tail()) from error
        if not child.running:
            what = f"ended with code {child.returncode} before it was healthy"
            raise ProcessFailed(child.name, what=what, log=child.log_tail())

    def _running_api(self) -> ChildProcess:
        if self._api is None or not self._api.running:
            raise RuntimeError("kube-apiserver is not running")
        return self._api


def _free_port() -> int:
    """A port that was free a moment ago; the callers try again when it no longer is."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
