"""Put back what was redacted on the bus into a job that is made from a template.

A CronJob, a JobTemplate or a JobFlow may hold a private key as an argument of a job's plugin.
The controllers decide by facts, in which it is redacted, so the job that they ask for lacks it.
Here it is taken from the live object that the job is made from, and nobody else sees it: an
argument list is put back only if redacting the live one gives exactly what was asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from stromboli.api import kinds
from stromboli.api.errors import UnknownKind
from stromboli.api.kinds import Kind
from stromboli.api.projections import REDACTED, redacted_arguments
from stromboli.api.wellknown import CREATED_BY_JOB_TEMPLATE
from stromboli.contracts.intents import CreateObject
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.refusals import Refusal

__all__ = ["needs_restoring", "restored", "sources_of"]

_MARK: Final = REDACTED.encode()
_TEMPLATES: Final = (kinds.VC_CRON_JOB, kinds.JOB_FLOW)


def needs_restoring(intent: CreateObject) -> bool:
    return intent.kind == kinds.VC_JOB.token and _MARK in intent.manifest


def sources_of(intent: CreateObject) -> Iterator[tuple[Kind[Any], str, str]]:
    """What the job is made from: kind, name, and the uid it must have (empty: any)."""
    metadata: Mapping[str, Any] = msgspec.json.decode(intent.manifest).get("metadata", {})
    for owner in metadata.get("ownerReferences") or ():
        try:
            kind = kinds.by_gvk(owner.get("apiVersion", ""), owner.get("kind", ""))
        except UnknownKind:
            continue
        if kind in _TEMPLATES and owner.get("controller"):
            yield kind, str(owner.get("name", "")), str(owner.get("uid", ""))
    said = str((metadata.get("annotations") or {}).get(CREATED_BY_JOB_TEMPLATE, ""))
    namespace, _, name = said.partition(".")
    if namespace == intent.namespace and name:
        yield kinds.JOB_TEMPLATE, name, ""


def restored(intent: CreateObject, sources: Sequence[bytes | msgspec.Raw]) -> bytes | Refusal:
    """The manifest with the live arguments, or why there is none."""
    manifest: dict[str, Any] = msgspec.json.decode(intent.manifest)
    plugins: dict[str, list[str]] = manifest.get("spec", {}).get("plugins") or {}
    known = [given for raw in sources for given in _plugins_in(msgspec.json.decode(raw))]
    for name, arguments in plugins.items():
        if not any(REDACTED in argument for argument in arguments):
            continue
        live = next((g[name] for g in known if _redacts_to(g.get(name), arguments)), None)
        if live is None:
            return Refusal(
                Reason.STALE, f"the arguments of plugin {name} have changed in the job's template"
            )
        plugins[name] = live
    return msgspec.json.encode(manifest)


def _redacts_to(live: object, wanted: Sequence[str]) -> bool:
    if not isinstance(live, list) or not all(isinstance(a, str) for a in cast("list[Any]", live)):
        return False
    return redacted_arguments(tuple(cast("list[str]", live))) == list(wanted)


def _plugins_in(item: object) -> Iterator[dict[str, Any]]:
    """Every `plugins` in an object, wherever it stands: there are not many places."""
    if isinstance(item, dict):
        for key, value in cast("dict[str, Any]", item).items():
            if key == "plugins" and isinstance(value, dict):
                yield cast("dict[str, Any]", value)
            else:
                yield from _plugins_in(value)
    elif isinstance(item, list):
        for member in cast("list[Any]", item):
            yield from _plugins_in(member)
