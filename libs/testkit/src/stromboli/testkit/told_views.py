"""A view that is told facts one by one, as if they stood on STATE: no server, no gateway.

What is tested with it is what a service makes of facts; how facts come about is tested with the
gateway itself.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stromboli.api import kinds
from stromboli.api.projections import encode_projection
from stromboli.api.wire import read_object
from stromboli.contracts import codec
from stromboli.contracts.facts import Fact, KindSynced, ObjectGone, ObjectSeen
from stromboli.runtime.bus.reader import LogMessage, LogPosition
from stromboli.runtime.bus.view import View
from stromboli.testkit.manifests import Manifest

__all__ = ["ToldView"]

_INCARNATION = "told"


@dataclass
class ToldView:
    """Tells a view what happened; nothing is synced until `sync` says so."""

    view: View[Any]
    _sequences: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.begin(_INCARNATION)

    def begin(self, incarnation: str) -> None:
        """The log is (another) one: the view reads it from its beginning."""
        self.incarnation = incarnation
        self._sequences = itertools.count(1)
        self.view.attach(LogPosition(incarnation, 0, 0.0))

    def seen(self, kind: str, manifest: Manifest, *, version: str = "1") -> None:
        item = read_object(kinds.by_token(kind), manifest)
        metadata = item.metadata
        self._apply(
            ObjectSeen(
                kind=kind,
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid or f"uid-of-{metadata.name}",
                resource_version=version,
                projection=msgspec.Raw(encode_projection(item)),
            )
        )

    def gone(self, kind: str, name: str, namespace: str = "") -> None:
        self._apply(
            ObjectGone(
                kind=kind,
                namespace=namespace,
                name=name,
                uid=f"uid-of-{name}",
                resource_version="9",
                projection=msgspec.Raw(msgspec.msgpack.encode({})),
            )
        )

    def sync(self, tokens: Sequence[str]) -> None:
        """All of these kinds were told in full."""
        for token in tokens:
            self._apply(
                KindSynced(kind=token, incarnation=self.incarnation, resource_version="1", count=0)
            )
        self.view.caught_up()

    def _apply(self, fact: Fact) -> None:
        self.view.apply(
            LogMessage(
                subject=fact.subject(),
                sequence=next(self._sequences),
                payload=codec.encode(fact),
                headers={},
                pending=0,
                timestamp=0.0,
            )
        )
