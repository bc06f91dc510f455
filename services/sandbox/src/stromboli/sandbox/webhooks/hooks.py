"""The registered webhooks, and which of them a kind of request concerns.

The answer depends on the operation and the resource only, so it is worked out once and kept
until a configuration or a definition changes: a write nobody asked about pays for one lookup.
Selectors and conditions look at the object, and are left to whoever has it.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.api.selectors import LabelSelector
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.changes import Change
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.kinds.webhooks import MUTATING_KEY, VALIDATING_KEY
from stromboli.sandbox.resources import Served
from stromboli.sandbox.store import Store

__all__ = ["Hook", "Hooks", "Matched", "Matching", "Rule", "ServiceReference"]


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """Requests that a webhook is for."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"

    def covers(self, operation: str, served: Served, version: str, subresource: str) -> bool:
        resource = served.resource
        wanted_scope = "Namespaced" if resource.namespaced else "Cluster"
        # kube counts namespaces themselves among the cluster's, as they are here.
        return (
            _among(operation, self.operations)
            and _among(resource.group, self.api_groups)
            and _among(version, self.api_versions)
            and self.scope in {"*", wanted_scope}
            and any(_names(entry, resource.plural, subresource) for entry in self.resources)
        )


def _among(value: str, choices: Sequence[str]) -> bool:
    return "*" in choices or value in choices


def _names(entry: str, plural: str, subresource: str) -> bool:
    """`pods`, `pods/binding`, `pods/*`, `*/scale`, `*` (no subresources), `*/*` (everything)."""
    wanted, _, part = entry.partition("/")
    return wanted in {"*", plural} and part in ({"*", subresource} if subresource else {"", "*"})


class ServiceReference(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    path: str = ""
    port: int = 443


class Condition(msgspec.Struct, frozen=True):
    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    name: str
    configuration: str
    mutating: bool
    url: str
    service: ServiceReference | None
    ca_bundle: bytes
    rules: tuple[Rule, ...]
    equivalent: bool
    ignore_failure: bool
    timeout_s: int
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[Condition, ...]
    reinvoked: bool


@dataclass(frozen=True, slots=True)
class Matched:
    """A webhook, and the version of the resource it wants to see."""

    hook: Hook
    version: str


@dataclass(frozen=True, slots=True)
class Matching:
    mutating: tuple[Matched, ...]
    validating: tuple[Matched, ...]


_Question: TypeAlias = tuple[str, str, str, str]
_CONFIGURATIONS: Final = (MUTATING_KEY, VALIDATING_KEY)


class Hooks:
    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue
        self._hooks: list[Hook] = []
        self._kept: dict[_Question, Matching | None] = {}
        self._edition = catalogue.edition
        self._read()
        store.listen(self._follow)

    def matching(self, operation: str, served: Served, subresource: str) -> Matching | None:
        """Who wants to hear of such requests; None if nobody does."""
        if not self._hooks or served.resource.key in _CONFIGURATIONS:
            # A webhook that could refuse its own removal could never be got rid of.
            return None
        if self._edition != self._catalogue.edition:
            self._edition = self._catalogue.edition
            self._kept.clear()
        question = (operation, served.resource.key, served.version, subresource)
        if question not in self._kept:
            self._kept[question] = self._worked_out(operation, served, subresource)
        return self._kept[question]

    def _worked_out(self, operation: str, served: Served, subresource: str) -> Matching | None:
        versions = [served.version] + [
            other.version
            for other in self._catalogue.all()
            if other.resource.key == served.resource.key and other.version != served.version
        ]
        found: list[Matched] = []
        for hook in self._hooks:
            considered = versions if hook.equivalent else versions[:1]
            for version in considered:
                if any(rule.covers(operation, served, version, subresource) for rule in hook.rules):
                    found.append(Matched(hook, version))
                    break
        if not found:
            return None
        return Matching(
            tuple(one for one in found if one.hook.mutating),
            tuple(one for one in found if not one.hook.mutating),
        )

    def _follow(self, change: Change) -> None:
        if change.resource in _CONFIGURATIONS:
            self._read()

    def _read(self) -> None:
        self._kept.clear()
        self._hooks = [
            _hook(entry, stored.name, mutating=key == MUTATING_KEY)
            for key in _CONFIGURATIONS
            for stored in sorted(self._store.bucket(key).objects.values(), key=lambda s: s.name)
            for entry in decode(stored.body).get("webhooks") or ()
        ]


def _hook(entry: Document, configuration: str, *, mutating: bool) -> Hook:
    client: Document = entry.get("clientConfig") or {}
    service = client.get("service")
    return Hook(
        name=entry["name"],
        configuration=configuration,
        mutating=mutating,
        url=client.get("url") or "",
        service=None if service is None else msgspec.convert(service, ServiceReference),
        ca_bundle=_bundle(client.get("caBundle") or ""),
        rules=msgspec.convert(entry.get("rules") or [], tuple[Rule, ...]),
        equivalent=entry.get("matchPolicy", "Equivalent") == "Equivalent",
        ignore_failure=entry.get("failurePolicy") == "Ignore",
        timeout_s=entry.get("timeoutSeconds", 10),
        namespaces=_selector(entry.get("namespaceSelector")),
        objects=_selector(entry.get("objectSelector")),
        conditions=msgspec.convert(entry.get("matchConditions") or [], tuple[Condition, ...]),
        reinvoked=entry.get("reinvocationPolicy") == "IfNeeded",
    )


def _selector(document: Any) -> LabelSelector:
    return msgspec.convert(document or {}, LabelSelector)


def _bundle(encoded: str) -> bytes:
    """What is not base64 is no certificate either; the call will say so."""
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return encoded.encode()
