"""Turn a kubeconfig or a service account into an open, authenticated connection pool.

kubernetes_asyncio reads the configuration, runs exec plugins, refreshes tokens and builds the
TLS context; this is the only module that imports it. Its own HTTP session is not used: it
looks into ~/.netrc in a thread for every request. Ours shares its connector instead.

Tokens and certificates rotate while we run. They are looked at again every minute and after
a 401; when a certificate file changed, new connections are made with the new one while calls under
way finish on the old. Nothing here logs or stores a credential.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject

from stromboli.kube.errors import AccessError
from stromboli.kube.proxies import proxy_for, usable_proxy
from stromboli.kube.settings import KubeAccess

__all__ = ["Connection", "Session", "connect"]

T = TypeVar("T")

CREDENTIALS_TIMEOUT_S = 15.0
"""How long reading a token or running an exec plugin may take."""

READ_BUFFER_BYTES = 512 * 1024
"""Bytes buffered per connection before reading pauses, so that a slow reader slows the server."""


class Session:
    """One connection pool with one TLS identity, closed once retired and no longer used."""

    def __init__(self, configuration: Configuration, user_agent: str) -> None:
        self.identity = _identity(configuration)
        rest = RESTClientObject(configuration)
        self._rest = rest
        self._users = 0
        self._retired = False
        self.http = aiohttp.ClientSession(
            connector=rest.pool_manager.connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compressing on a cluster's own network costs both sides more than it saves.
            headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
            skip_auto_headers=("Content-Type",),
            raise_for_status=False,
            read_bufsize=READ_BUFFER_BYTES,
        )
        self.options: dict[str, Any] = {"allow_redirects": False}
        if configuration.tls_server_name:
            self.options["server_hostname"] = configuration.tls_server_name
        if proxy := _proxy(configuration):
            self.options["proxy"] = proxy
            self.options["proxy_headers"] = configuration.proxy_headers

    @asynccontextmanager
    async def used(self) -> AsyncGenerator["Session", None]:
        self._users += 1
        try:
            yield self
        finally:
            self._users -= 1
            if self._retired and self._users == 0:
                await self.close()

    async def retire(self) -> None:
        """Take no new calls; close now, or when the last call ends."""
        self._retired = True
        if self._users == 0:
            await self.close()

    async def close(self) -> None:
        await self.http.close()
        await self._rest.close()
        await asyncio.sleep(0)  # aborted connections close their sockets in the next turn


class Connection:
    """A base address, a live authorization header and the pool to use right now."""

    def __init__(
        self,
        access: KubeAccess,
        configuration: Configuration,
        reload: Callable[[], Awaitable[None]],
    ) -> None:
        self.base_url = (configuration.host or "").rstrip("/")
        self._access = access
        self._configuration = configuration
        self._reload = reload
        self._session = Session(configuration, access.user_agent)
        self._refreshing = asyncio.Lock()
        self._refresh_due = self._now() + access.refresh_credentials_every_s
        self._authorization = _authorization(configuration)

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session, None]:
        """The pool to send one request on; it stays open for that request."""
        async with self._session.used() as session:
            yield session

    async def keep_fresh(self) -> None:
        """Look at the credentials again if it is time; call it before a request.

        What we have may be good for long, so a failure is not the caller's: if the
        credentials have expired, a 401 will say so.
        """
        if self._now() < self._refresh_due:
            return
        async with self._refreshing:
            if self._now() < self._refresh_due:
                return
            try:
                await self._read_credentials()
            except AccessError:
                self._refresh_due = self._now() + self._access.refresh_credentials_every_s

    @property
    def authorization(self) -> str | None:
        return self._authorization

    async def refresh(self, *, refused: str | None) -> bool:
        """Read the credentials again because `refused` got a 401; True if they are new."""
        async with self._refreshing:
            if self._authorization != refused:
                return True  # another call was refused as well and has refreshed meanwhile
            before = self._session
            await self._read_credentials()
            return self._authorization != refused or self._session is not before

    async def close(self) -> None:
        await self._session.close()

    async def _read_credentials(self) -> None:
        await _in_time(self._reload())
        self._authorization = _authorization(self._configuration)
        self._refresh_due = self._now() + self._access.refresh_credentials_every_s
        if _identity(self._configuration) != self._session.identity:
            retired = self._session
            self._session = Session(self._configuration, self._access.user_agent)
            await retired.retire()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def connect(access: KubeAccess) -> Connection:
    """Read the configuration and prepare the pool; nothing is sent yet."""
    configuration = Configuration()
    configuration.connection_pool_maxsize = access.limits.max_connections
    reload = await _in_time(_load(access, configuration))
    if not (configuration.host or "").startswith(("https://", "http://")):
        raise AccessError(
            f"the cluster's server is {configuration.host!r}; expected an http(s) address"
        )
    try:
        return Connection(access, configuration, reload)
    except OSError as error:  # ssl.SSLError is one: a certificate or key that can not be read
        raise AccessError(f"the TLS files of {configuration.host} do not work: {error}") from error


async def _in_time(reading: Awaitable[T]) -> T:
    """An exec plugin may ask a server, or a person, and wait for ever."""
    try:
        async with asyncio.timeout(CREDENTIALS_TIMEOUT_S):
            return await reading
    except TimeoutError as error:
        raise AccessError(
            f"the credentials were not there within {CREDENTIALS_TIMEOUT_S:g} s; "
            "look at the kubeconfig's exec plugin"
        ) from error


async def _load(access: KubeAccess, configuration: Configuration) -> Callable[[], Awaitable[None]]:
    """Fill `configuration`; what is returned fills it again, as cheaply as the source allows."""
    if access.in_cluster:

        async def read_service_account() -> None:
            try:
                kube_config.load_incluster_config(configuration, try_refresh_token=False)
            except (kube_config.ConfigException, OSError) as error:
                raise AccessError(f"no usable service account in this pod: {error}") from error

        await read_service_account()
        return read_service_account

    paths = _kubeconfig_paths(access)
    try:
        # It would write refreshed tokens back into the user's file, and fails doing so.
        loader = await kube_config.load_kube_config(
            config_file=paths,
            context=access.context,
            client_configuration=configuration,
            persist_config=False,
        )
    except Exception as error:
        raise _unusable(paths, access.context, error) from error

    async def read_kubeconfig_user() -> None:
        try:
            await loader.load_and_set(configuration)
        except Exception as error:
            raise _unusable(paths, access.context, error) from error

    return read_kubeconfig_user


def _kubeconfig_paths(access: KubeAccess) -> str:
    paths = access.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep)):
        raise AccessError(
            f"there is no kubeconfig at {paths!r}; set kubeconfig, $KUBECONFIG or in_cluster"
        )
    return paths


def _unusable(paths: str, context: str | None, error: Exception) -> AccessError:
    """The loader raises whatever it stumbles over: missing keys, YAML, plugins, assertions."""
    which = "its current context" if context is None else f"context {context!r}"
    why = str(error) or type(error).__name__
    return AccessError(f"the kubeconfig {paths!r} ({which}) can not be used: {why}")


def _authorization(configuration: Configuration) -> str | None:
    key = configuration.api_key.get("BearerToken")
    return str(key).strip() if key else None


def _identity(configuration: Configuration) -> tuple[object, ...]:
    """What a TLS context was built from: the files, and when each of them last changed."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return tuple((name, _modified_ns(name)) for name in files)


def _modified_ns(name: str | None) -> int:
    try:
        return Path(name).stat().st_mtime_ns if name else 0
    except OSError:
        return 0


def _proxy(configuration: Configuration) -> str | None:
    """The kubeconfig's own proxy, or the environment's; looked up once per pool."""
    if configuration.proxy:
        return usable_proxy(str(configuration.proxy), "the kubeconfig's proxy-url")
    return proxy_for(configuration.host or "", os.environ)
