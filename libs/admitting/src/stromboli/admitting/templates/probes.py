"""Probes and hooks: what is done, how often, and by whom it may be asked for."""

import re
from collections.abc import Iterator
from typing import Final

from stromboli.admitting.templates.cases import ContainerCase, template_rule
from stromboli.admitting.templates.fielderrors import forbidden, invalid, required, unsupported
from stromboli.admitting.templates.ports import port_faults
from stromboli.admitting.templates.shapes import Handler, HttpGet, Probe

__all__ = ["hooks", "init_probes", "probe_handlers", "probe_numbers"]

_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_SCHEMES: Final = ("HTTP", "HTTPS")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_DEFAULT_GRACE: Final = 30


@template_rule(
    "probe-handlers",
    fields=("liveness_probe", "readiness_probe", "startup_probe"),
    about="a probe runs a command or asks one port, one of them",
)
def probe_handlers(case: ContainerCase) -> Iterator[str]:
    for place, probe in _probes(case):
        yield from _handler_faults(place, probe)


@template_rule(
    "probe-numbers",
    fields=("liveness_probe", "readiness_probe", "startup_probe"),
    about="times and thresholds are not negative; the success threshold of liveness and startup "
    "probes is 1; readiness probes have no grace period",
)
def probe_numbers(case: ContainerCase) -> Iterator[str]:
    for place, probe in _probes(case):
        for field, number in (
            ("initialDelaySeconds", probe.initial_delay_seconds),
            ("timeoutSeconds", probe.timeout_seconds),
            ("periodSeconds", probe.period_seconds),
            ("successThreshold", probe.success_threshold),
            ("failureThreshold", probe.failure_threshold),
        ):
            if number < 0:
                yield invalid(f"{place}.{field}", number, _NOT_NEGATIVE)
        is_readiness = place.endswith(".readinessProbe")
        if not is_readiness and probe.success_threshold > 1:
            yield invalid(f"{place}.successThreshold", probe.success_threshold, "must be 1")
        grace = probe.termination_grace_period_seconds
        if grace is not None and is_readiness:
            field = f"{place}.terminationGracePeriodSeconds"
            yield invalid(field, grace, "must not be set for readinessProbes")
        elif grace is not None and grace <= 0:
            field = f"{place}.terminationGracePeriodSeconds"
            yield invalid(field, grace, "must be greater than 0")


@template_rule(
    "hooks",
    fields=("lifecycle",),
    about="a hook does one thing; one that sleeps ends before the pod must",
)
def hooks(case: ContainerCase) -> Iterator[str]:
    lifecycle = case.container.lifecycle
    if lifecycle is None:
        return
    grace = case.spec.termination_grace_period_seconds
    longest = _DEFAULT_GRACE if grace is None else grace
    for field, hook in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if hook is None:
            continue
        place = f"{case.path}.lifecycle.{field}"
        yield from _handler_faults(place, hook)
        if hook.sleep is not None and not 0 <= hook.sleep.seconds <= longest:
            detail = "must be non-negative and less than terminationGracePeriodSeconds"
            yield invalid(f"{place}.sleep", hook.sleep.seconds, f"{detail} ({longest})")


@template_rule(
    "init-probes",
    fields=("liveness_probe", "readiness_probe", "startup_probe", "lifecycle"),
    about="init containers that do not restart always have no probes and no hooks",
)
def init_probes(case: ContainerCase) -> Iterator[str]:
    if not case.is_init or case.container.restart_policy == "Always":
        return
    one = case.container
    for field, value in (
        ("lifecycle", one.lifecycle),
        ("livenessProbe", one.liveness_probe),
        ("readinessProbe", one.readiness_probe),
        ("startupProbe", one.startup_probe),
    ):
        if value is not None:
            detail = "may not be set for init containers without restartPolicy=Always"
            yield forbidden(f"{case.path}.{field}", detail)


def _probes(case: ContainerCase) -> Iterator[tuple[str, Probe]]:
    one = case.container
    if one.liveness_probe is not None:
        yield f"{case.path}.livenessProbe", one.liveness_probe
    if one.readiness_probe is not None:
        yield f"{case.path}.readinessProbe", one.readiness_probe
    if one.startup_probe is not None:
        yield f"{case.path}.startupProbe", one.startup_probe


def _handler_faults(place: str, handler: Handler) -> Iterator[str]:
    given = sum(
        one is not None
        for one in (
            handler.exec,
            handler.http_get,
            handler.tcp_socket,
            handler.grpc,
            handler.sleep,
        )
    )
    if not given:
        yield required(place, "must specify a handler type")
    elif given > 1:
        yield forbidden(place, "may not specify more than 1 handler type")
    if handler.exec is not None and not handler.exec.command:
        yield required(f"{place}.exec.command")
    if handler.http_get is not None:
        yield from _http_faults(f"{place}.httpGet", handler.http_get)
    if handler.tcp_socket is not None:
        yield from port_faults(f"{place}.tcpSocket.port", handler.tcp_socket.port)
    if handler.grpc is not None:
        yield from port_faults(f"{place}.grpc.port", handler.grpc.port)


def _http_faults(place: str, get: HttpGet) -> Iterator[str]:
    yield from port_faults(f"{place}.port", get.port)
    if get.scheme and get.scheme not in _SCHEMES:
        yield unsupported(f"{place}.scheme", get.scheme, _SCHEMES)
    for header in get.http_headers:
        if not _HEADER.fullmatch(header.name):
            detail = "a valid HTTP header must consist of alphanumeric characters or '-'"
            yield invalid(f"{place}.httpHeaders", header.name, detail)
