"""What a source of settings yields, and the source that is the environment.

Each source turns what it finds into `Given` values, still as text or plain data, with the
place they came from; judging them is the loader's work. A name that no setting has is a
problem wherever it stands: a setting that is silently ignored is a wrong setting.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.runtime.settings.schema import Group, Setting, env_prefix

__all__ = ["Findings", "Given", "from_environment", "nearest"]

# Kubernetes puts the addresses of its Services into every pod's environment. A Service
# called stromboli-gateway brings STROMBOLI_GATEWAY_PORT=tcp://10.0.0.7:80 and friends.
_KUBERNETES_NAME: Final = re.compile(
    r"(?:.*_)?(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?"
    r"|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_KUBERNETES_VALUE: Final = re.compile(r"(?:tcp|udp|sctp)://\S+")


@dataclass(frozen=True, slots=True)
class Given:
    """A value somebody gave for a setting."""

    setting: Setting
    value: Any
    origin: str
    is_text: bool
    is_path_of_secret: bool = False


@dataclass(slots=True)
class Findings:
    """What one source holds: usable values, and problems as sentences."""

    given: list[Given] = field(default_factory=list[Given])
    problems: list[str] = field(default_factory=list[str])
    reserved: dict[str, str] = field(default_factory=dict[str, str])


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, or nothing if nothing is near."""
    by_plain = {_plain(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(_plain(name), by_plain, n=1, cutoff=0.6)
    return f"; did you mean {by_plain[found[0]]}?" if found else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def from_environment(schema: Group, environ: Mapping[str, str], *, service: str) -> Findings:
    """Variables with our prefix; an empty one counts as not set."""
    prefix = env_prefix(service)
    targets: dict[str, tuple[Setting, bool]] = {}
    for setting in schema.settings():
        targets[setting.env] = (setting, False)
        if setting.is_secret:
            targets[f"{setting.env}_FILE"] = (setting, True)
    findings = Findings()
    for name, value in environ.items():
        if not name.startswith(prefix) or not value:
            continue
        origin = f"environment variable {name}"
        if name == f"{prefix}CONFIG":
            findings.reserved["config"] = value
        elif _is_from_kubernetes(name.removeprefix(prefix), value, is_known=name in targets):
            continue
        elif name in targets:
            setting, is_path = targets[name]
            findings.given.append(
                Given(setting, value, origin, is_text=True, is_path_of_secret=is_path)
            )
        else:
            findings.problems.append(f"{origin}: there is no such setting{nearest(name, targets)}")
    return findings


def _is_from_kubernetes(rest: str, value: str, *, is_known: bool) -> bool:
    if rest.endswith("PORT") and _KUBERNETES_VALUE.fullmatch(value):
        return True
    return not is_known and _KUBERNETES_NAME.fullmatch(rest) is not None
