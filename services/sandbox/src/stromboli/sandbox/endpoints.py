"""Where a service or a pod can be reached, for the proxy and for webhooks behind services.

Only addresses of this machine are given out: simulated pods have addresses that lead nowhere or,
worse, to somebody else. A service's endpoints come from its EndpointSlices or its Endpoints
object; a service with a selector and neither has its ready pods as endpoints, since nobody here
writes those objects as a real cluster's controller would.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.errors import NoEndpoints
from stromboli.sandbox.store import Store

__all__ = ["Endpoints"]

_SLICES: Final = "discovery.k8s.io/endpointslices"
_SERVICE_LABEL: Final = "kubernetes.io/service-name"


class Endpoints:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = 0

    def of_service(self, namespace: str, name: str, port: str) -> tuple[str, int]:
        """An endpoint of a service's port, given by name or number, or empty if it has but one."""
        stored = self._store.get("services", namespace, name)
        if stored is None:
            raise NoEndpoints(f'service "{name}" not found')
        spec: Document = decode(stored.body).get("spec") or {}
        chosen = _service_port(spec, name, port)
        found = [
            *self._sliced(namespace, name, chosen),
            *self._listed(namespace, name, chosen),
        ] or list(self._selected(namespace, spec, chosen))
        reachable = [one for one in found if _is_local(one[0])]
        if found and not reachable:
            raise NoEndpoints(
                f'service "{name}" has endpoints, but none on this machine (such as {found[0][0]}):'
                " only process pods can be reached"
            )
        if not reachable:
            raise NoEndpoints(f'no endpoints available for service "{name}"')
        self._turn += 1
        return reachable[self._turn % len(reachable)]

    def of_pod(self, namespace: str, name: str, port: str) -> tuple[str, int]:
        """The address of a pod's port, by name or number, or its first one."""
        stored = self._store.get("pods", namespace, name)
        if stored is None:
            raise NoEndpoints(f'pod "{name}" not found')
        pod: Document = decode(stored.body)
        address = (pod.get("status") or {}).get("podIP", "")
        if not address:
            raise NoEndpoints(f'pod "{name}" has no address yet')
        if not _is_local(address):
            raise NoEndpoints(
                f'pod "{name}" is simulated: its address {address} leads nowhere; only process'
                " pods can be reached"
            )
        number = _container_port(pod, port) if port else _first_port(pod)
        if number is None:
            raise NoEndpoints(f'pod "{name}" has no port "{port}"')
        return address, number

    def _sliced(self, namespace: str, name: str, port: Document) -> Iterator[tuple[str, int]]:
        for stored in self._store.bucket(_SLICES).objects.values():
            if stored.namespace != namespace or stored.labels.get(_SERVICE_LABEL) != name:
                continue
            document: Document = decode(stored.body)
            numbers = _matching_ports(document.get("ports"), port)
            for endpoint in document.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready", True) is False:
                    continue
                for address in endpoint.get("addresses") or ():
                    yield from ((address, number) for number in numbers)

    def _listed(self, namespace: str, name: str, port: Document) -> Iterator[tuple[str, int]]:
        stored = self._store.get("endpoints", namespace, name)
        document: Document = {} if stored is None else decode(stored.body)
        for subset in document.get("subsets") or ():
            numbers = _matching_ports(subset.get("ports"), port)
            for address in subset.get("addresses") or ():
                yield from ((address.get("ip", ""), number) for number in numbers)

    def _selected(
        self, namespace: str, spec: Document, port: Document
    ) -> Iterator[tuple[str, int]]:
        selector: dict[str, str] = spec.get("selector") or {}
        if not selector:
            return
        for stored in self._store.bucket("pods").objects.values():
            if stored.namespace != namespace or not selector.items() <= stored.labels.items():
                continue
            pod: Document = decode(stored.body)
            status = pod.get("status") or {}
            if "deletionTimestamp" in pod["metadata"] or not _is_ready(status):
                continue
            number = _container_port(pod, port.get("targetPort", port.get("port", 0)))
            if number:
                yield status.get("podIP", ""), number


def _service_port(spec: Document, name: str, port: str) -> Document:
    ports: list[Document] = spec.get("ports") or []
    if not port and len(ports) == 1:
        return ports[0]
    for one in ports:
        if port == one.get("name", "") or (port.isdigit() and int(port) == one.get("port")):
            return one
    if port.isdigit():
        raise NoEndpoints(f'no service port {port} found for service "{name}"')
    raise NoEndpoints(f'no endpoints available for service "{name}{":" if port else ""}{port}"')


def _matching_ports(ports: list[Document] | None, wanted: Document) -> list[int]:
    """The numbers behind a service's port: endpoints name their ports like the service does."""
    name = wanted.get("name", "")
    return [
        number for one in ports or () if one.get("name", "") == name and (number := one.get("port"))
    ]


def _container_port(pod: Document, port: Any) -> int | None:
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for container in pod["spec"].get("containers") or ():
        for one in container.get("ports") or ():
            if one.get("name") == port:
                return one.get("containerPort")
    return None


def _first_port(pod: Document) -> int:
    for container in pod["spec"].get("containers") or ():
        for one in container.get("ports") or ():
            return one["containerPort"]
    return 80


def _is_ready(status: Document) -> bool:
    return any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def _is_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
