"""What admission is asked, what it may look at, and what it answers.

`Review` is one request of the API server, `Verdict` the answer to it. `Surroundings` is all
that a rule may know of the cluster; the service answers it from its view, a dry run from what
it has read. An object in a review is JSON as it came, since its schema may not have been
checked yet: it is typed where rules look at it, and only there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from stromboli.api.scheduling import PodGroup, Queue

__all__ = [
    "ALLOWED",
    "MAX_MESSAGE",
    "Json",
    "PatchOperation",
    "Resource",
    "Review",
    "Surroundings",
    "UserInfo",
    "Verdict",
    "cut",
]

Json: TypeAlias = Any
"""A JSON value as msgspec decodes it."""

PatchOperation: TypeAlias = dict[str, Json]
"""One operation of RFC 6902: `op`, `path`, and `value` unless something is removed."""


MAX_MESSAGE: Final = 8192
"""Longer messages are cut: whoever has ten thousand faults is told of the first ones."""


def cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


class Surroundings(Protocol):
    """What rules may ask about the cluster. Answers must not change during one review."""

    @property
    def is_synced(self) -> bool:
        """Whether the queues were read in full at least once; before, nothing is known."""
        ...

    def queue(self, name: str) -> Queue | None:
        """The queue; None means that it does not exist, the caller has looked."""
        ...

    def queues(self) -> Iterable[Queue]:
        """Every queue that is known."""
        ...

    def children_of(self, queue: str) -> Sequence[Queue]: ...

    def allocated_pods(self, queue: str) -> int:
        """How many pods of the queue's podgroups hold resources."""
        ...

    def pod_groups_in(self, queue: str) -> int: ...

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]: ...

    def pod_group(self, namespace: str, name: str) -> PodGroup | None: ...


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as the API server authenticated them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Which collection the object is in."""

    group: str = ""
    version: str = ""
    resource: str = ""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One request: somebody wants an object to be created, changed or deleted."""

    uid: str
    kind: str = ""
    resource: Resource = Resource()
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    object: Json = None
    old_object: Json = None
    user_info: UserInfo = UserInfo()
    dry_run: bool = False
    options: Json = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `rule` names the first rule that refused, for telemetry and tests."""

    allowed: bool
    message: str = ""
    code: int = 200
    warnings: tuple[str, ...] = ()
    patch: list[PatchOperation] | None = None
    rule: str = ""


ALLOWED = Verdict(allowed=True)
