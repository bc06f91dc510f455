"""Manifests: text to objects, each with the place where it was written.

Every kind of the registry is read; one that nobody here decides by is passed over with a
warning. What can't be read is an error that says where it stands and what was expected.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stromboli.api.errors import ApiError, TimestampError, UnknownKind
from stromboli.api.kinds import KINDS, by_gvk, kind_of
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import Queue
from stromboli.api.timestamps import parse_time
from stromboli.api.wire import read_object
from stromboli.simulating.completing import in_a_namespace
from stromboli.simulating.crd_rules import remarks
from stromboli.simulating.errors import BadInput
from stromboli.simulating.queue_order import parents_first
from stromboli.simulating.store import START, Place, place_of
from stromboli.simulating.yaml_text import documents

__all__ = ["Given", "Manifests", "Source", "is_asked_about", "read_manifests"]

_BEFORE_OTHERS: Final = (
    "namespace",
    "priorityclass",
    "queue",
    "hypernode",
    "node",
    "resourcequota",
    "poddisruptionbudget",
    "jobtemplate",
    "vcpodgroup",
)
"""What others name comes before them; everything else as it was given."""
_FIRST: Final = {token: number for number, token in enumerate(_BEFORE_OTHERS)}
_QUESTIONS: Final = frozenset({"vcjob", "vccronjob", "jobflow", "jobtemplate"})
_LIST: Final = "List"


class Source(NamedTuple):
    """One file; its name is how messages call it."""

    name: str
    text: str


class Given(NamedTuple):
    """An object, and where it stands."""

    where: str
    item: KubeObject


@dataclass(slots=True)
class Manifests:
    """All that was given, in an order in which nothing comes before what it names."""

    given: list[Given] = field(default_factory=list[Given])
    warnings: list[str] = field(default_factory=list[str])
    circling: set[Place] = field(default_factory=set[Place])
    """Queues that are above themselves; there is a warning of them already."""

    @property
    def latest(self) -> float:
        """The newest moment that any of them tells of; START when they tell of none."""
        told = (moment for one in self.given for moment in _moments(one))
        return max(told, default=START)


def read_manifests(sources: Iterable[Source]) -> Manifests:
    """Raises BadInput."""
    found = Manifests()
    known: dict[Place, Given] = {}
    for source in sources:
        is_empty = True
        for document in documents(source.name, source.text):
            is_empty = False
            where = f"{source.name}:{document.line}: document {document.number}"
            for place, manifest in _items(where, document.content):
                item = _read(place, manifest, found.warnings)
                if item is not None:
                    _add(Given(place, item), known, found)
        if is_empty:
            found.warnings.append(f"{source.name}: there is nothing in it")
    found.given.sort(key=lambda one: _rank(one.item))
    _sort_queues(found)
    return found


def _items(where: str, content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a document: itself, or the items of a list."""
    if not isinstance(content, dict):
        raise BadInput(where, "expected an object with apiVersion and kind, found none")
    kind = content.get("kind")
    if not isinstance(kind, str) or not kind:
        raise BadInput(where, "it has no kind, expected one such as Pod or Queue")
    items: Any = content.get("items")
    if not kind.endswith(_LIST) or not isinstance(items, list):
        yield where, content
        return
    for number, item in enumerate(items, start=1):
        place = f"{where}, item {number}"
        if isinstance(item, dict) and kind != _LIST:
            # The items of a list of one kind need not repeat what they are.
            alike = {"apiVersion": content.get("apiVersion"), "kind": kind.removesuffix(_LIST)}
            item = {**alike, **item}  # noqa: PLW2901 (completed)
        yield from _items(place, item)


def _read(where: str, manifest: dict[str, Any], warnings: list[str]) -> KubeObject | None:
    version: Any = manifest.get("apiVersion")
    if not isinstance(version, str) or not version:
        raise BadInput(where, f"a {manifest['kind']} without apiVersion, expected one such as v1")
    try:
        kind = by_gvk(version, manifest["kind"])
    except UnknownKind:
        warnings.append(f"{where}: {_unknown(version, manifest['kind'])}")
        return None
    try:
        item = read_object(kind, manifest)
    except (ApiError, RecursionError) as fault:
        raise BadInput(where, str(fault)) from fault
    if not item.metadata.name:
        raise BadInput(where, f"a {kind.kind} without metadata.name, expected a name")
    if said := remarks(kind, manifest):
        warnings.append(f"{where}: {kind.kind} {item.metadata.name}: {'; '.join(said)}")
    return in_a_namespace(item)


def _unknown(version: str, kind: str) -> str:
    near = difflib.get_close_matches(kind, {known.kind for known in KINDS}, n=1, cutoff=0.75)
    others = [f"{known.api_version} {known.kind}" for known in KINDS if known.kind in (kind, *near)]
    said = f"{version} {kind} is passed over: nothing is decided by objects of this kind"
    return f"{said} (did you mean {' or '.join(others)}?)" if others else said


def is_asked_about(item: KubeObject) -> bool:
    """Whether somebody wants to know what becomes of it; all else says what there is.

    A question that makes no sense has no answer. One bad fact among many must not spoil it.
    """
    return kind_of(item).token in _QUESTIONS


def _add(one: Given, known: dict[Place, Given], found: Manifests) -> None:
    place = place_of(one.item)
    before = known.setdefault(place, one)
    if before is one:
        found.given.append(one)
    elif before.item != one.item:
        name = one.item.metadata.name
        said = f"{kind_of(one.item).kind} {name} was given before, differently, in {before.where}"
        if is_asked_about(one.item):
            raise BadInput(one.where, said)
        found.warnings.append(f"{one.where}: {said}; this one is set aside")


def _rank(item: KubeObject) -> int:
    return _FIRST.get(kind_of(item).token, len(_FIRST))


def _sort_queues(found: Manifests) -> None:
    """A queue after its parent, in the place where queues come."""
    order = parents_first(one.item for one in found.given if isinstance(one.item, Queue))
    queues = {one.item.metadata.name: one for one in found.given if isinstance(one.item, Queue)}
    if not queues:
        return
    at = found.given.index(next(iter(queues.values())))
    found.given[at : at + len(queues)] = [queues[name] for name in order.names]
    for circle in order.circles:
        if len(circle) > 1:
            way = " → ".join((*circle, circle[0]))
            said = f"the parents of Queue {circle[0]} go round in a circle: {way}"
            found.warnings.append(f"{queues[circle[0]].where}: {said}; all are there all the same")
            found.circling |= {place_of(queues[name].item) for name in circle}


def _moments(one: Given) -> Iterator[float]:
    metadata = one.item.metadata
    texts = [metadata.creation_timestamp, metadata.deletion_timestamp]
    status: Any = getattr(one.item, "status", None)
    texts.append(getattr(status, "start_time", None))
    for condition in getattr(status, "conditions", ()):
        texts.append(condition.last_transition_time)  # noqa: PERF401 (read as it is written)
    try:
        yield from (_unix(text) for text in texts if text)
    except TimestampError as fault:
        raise BadInput(one.where, str(fault)) from fault


@lru_cache
def _unix(text: str) -> float:
    """Objects of one cluster share many of their moments."""
    return parse_time(text).timestamp()
