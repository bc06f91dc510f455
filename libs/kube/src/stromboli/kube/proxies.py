"""Whether a request goes through a proxy, decided from the environment as kubectl decides it.

HTTPS_PROXY and HTTP_PROXY name the proxy by the scheme of the request; NO_PROXY lists what is
reached without one. This machine itself never is reached through a proxy: nobody else's 127.0.0.1
is meant. The rules are those of Go's golang.org/x/net/http/httpproxy, which every client of
Kubernetes written in Go follows; urllib's differ (no CIDRs, lower case first, loopback proxied).
"""

import ipaddress
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from yarl import URL

from stromboli.kube.errors import AccessError

__all__ = ["proxy_for", "usable_proxy"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS: Final = {"http": "80", "https": "443"}
_USABLE: Final = frozenset(_PORTS)
_KNOWN: Final = _USABLE | {"socks5", "socks5h"}


class Destination(msgspec.Struct, frozen=True):
    """The server of a request; `address` is None if it is called by name."""

    host: str
    port: str
    address: Address | None

    @property
    def is_this_machine(self) -> bool:
        return self.host == "localhost" or (self.address is not None and self.address.is_loopback)


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy for requests to `url`; None if they go straight there."""
    try:
        target = URL(url)
    except ValueError:  # the request itself will tell what is wrong with it
        return None
    proxy = _variable(environment, f"{target.scheme}_proxy") if target.scheme in _PORTS else ""
    if not proxy or not target.host:
        return None
    destination = _destination(target)
    if destination.is_this_machine or _is_excepted(destination, environment):
        return None
    return usable_proxy(proxy, f"{target.scheme.upper()}_PROXY")


def usable_proxy(proxy: str, source: str) -> str:
    """The proxy's URL; `host:port` alone means http. AccessError for one we can't speak to."""
    scheme, found, _ = proxy.partition("://")
    if not found or scheme not in _KNOWN:
        scheme, proxy = "http", f"http://{proxy}"
    if scheme not in _USABLE:
        # The address itself may carry a password.
        raise AccessError(
            f"{source} names a {scheme} proxy; expected an http or https one. Add the API server to"
            " NO_PROXY to reach it without a proxy"
        )
    return proxy


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _destination(url: URL) -> Destination:
    host = _ascii((url.host or "").lower())
    return Destination(host, str(url.port or _PORTS[url.scheme]), _address(host))


def _is_excepted(destination: Destination, environment: Mapping[str, str]) -> bool:
    entries = (entry.strip().lower() for entry in _variable(environment, "no_proxy").split(","))
    return any(_covers(entry, destination) for entry in entries if entry)


def _covers(entry: str, destination: Destination) -> bool:
    """Whether an entry of NO_PROXY means this destination. Entries without a sense mean nothing."""
    if entry == "*":
        return True
    address, _, length = entry.partition("/")
    if length.isdecimal() and _address(address) is not None:
        return _is_in(entry, destination.address)
    host, port = _host_and_port(entry)
    if port and port != destination.port:
        return False
    excepted = _address(host)
    if excepted is not None:
        return excepted == destination.address
    return bool(host) and _is_in_domain(host, destination.host)


def _is_in(network: str, address: Address | None) -> bool:
    try:
        return address is not None and address in ipaddress.ip_network(network, strict=False)
    except ValueError:  # a prefix longer than an address
        return False


def _is_in_domain(entry: str, host: str) -> bool:
    """`a.b` means itself and what is below it; `.a.b` and `*.a.b` only what is below."""
    domain = _ascii(entry.removeprefix("*"))
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _host_and_port(entry: str) -> tuple[str, str]:
    """`host`, `host:port`, `[v6]:port` or a bare `v6` taken apart."""
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, port.removeprefix(":")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _ascii(name: str) -> str:
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return name
