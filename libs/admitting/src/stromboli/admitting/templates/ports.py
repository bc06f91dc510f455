"""Ports of containers: their names, numbers and protocols, and no two on one place of a host."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from stromboli.admitting.templates.cases import ContainerCase, TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import (
    all_invalid,
    duplicate,
    invalid,
    required,
    unsupported,
)
from stromboli.admitting.templates.shapes import PortNumber

__all__ = ["host_ports_apart", "is_ip", "port_faults", "port_names", "port_numbers"]

_RANGE: Final = "must be between 1 and 65535, inclusive"
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


def name_faults(name: str) -> list[str]:
    """What is wrong with the name of a port (IANA service names)."""
    faults: list[str] = []
    if len(name) > 15:
        faults.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", name):
        faults.append("must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def port_faults(path: str, port: PortNumber) -> list[str]:
    """What is wrong with a port that is given by number or by name."""
    if isinstance(port, str):
        return all_invalid(path, port, name_faults(port))
    return [] if 1 <= port <= 65535 else [invalid(path, port, _RANGE)]


def is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


@template_rule(
    "port-names",
    fields=("ports",),
    about="names of ports are IANA service names, once per container",
)
def port_names(case: ContainerCase) -> Iterator[str]:
    seen: set[str] = set()
    for index, port in enumerate(case.container.ports):
        if port.name:
            place = f"{case.path}.ports[{index}].name"
            for fault in name_faults(port.name):
                yield invalid(place, port.name, fault)
            if port.name in seen:
                yield duplicate(place, port.name)
            seen.add(port.name)


@template_rule(
    "port-numbers",
    fields=("ports",),
    about="ports are 1 to 65535, protocols TCP, UDP or SCTP; on the host network a host port is "
    "the container's port",
)
def port_numbers(case: ContainerCase) -> Iterator[str]:
    for index, port in enumerate(case.container.ports):
        place = f"{case.path}.ports[{index}]"
        if port.container_port == 0:
            yield required(f"{place}.containerPort")
        elif not 1 <= port.container_port <= 65535:
            yield invalid(f"{place}.containerPort", port.container_port, _RANGE)
        if port.host_port and not 1 <= port.host_port <= 65535:
            yield invalid(f"{place}.hostPort", port.host_port, _RANGE)
        if case.spec.host_network and port.host_port not in (0, port.container_port):
            detail = "must match `containerPort` when `hostNetwork` is true"
            yield invalid(f"{place}.hostPort", port.host_port, detail)
        if port.protocol and port.protocol not in _PROTOCOLS:
            yield unsupported(f"{place}.protocol", port.protocol, _PROTOCOLS)


@template_rule("host-ports", about="two containers do not ask for one port of the host")
def host_ports_apart(case: TemplateCase) -> Iterator[str]:
    seen: set[tuple[str, str, int]] = set()
    for number, container in enumerate(case.spec.containers):
        for index, port in enumerate(container.ports):
            host_port = port.host_port
            if case.spec.host_network and not host_port:
                host_port = port.container_port
            if not host_port:
                continue
            taken = (port.protocol or "TCP", port.host_ip, host_port)
            if taken in seen:
                place = f"{case.spec_path}.containers[{number}].ports[{index}].hostPort"
                yield duplicate(place, f"{taken[0]}/{taken[1]}/{taken[2]}")
            seen.add(taken)
