"""The only code that speaks to a Kubernetes API server: bytes in, bytes out, all bounded.

`KubeClient` has the verbs, `Reflector` follows one kind, `errors` says what went wrong and whether
the same call may work later. Nothing here knows what an object means, and nothing here logs:
what happened is a value or an exception.
"""

from stromboli.kube.backoff import Backoff
from stromboli.kube.client import Body, KubeClient
from stromboli.kube.last_look import last_look
from stromboli.kube.paths import Resource, ResourceKind
from stromboli.kube.reflector import (
    Bookmark,
    Change,
    Changed,
    Interrupted,
    ListAbandoned,
    ListDone,
    ListPage,
    ListReason,
    ListStarted,
    Reflector,
    ReflectorHealth,
    ReflectorSettings,
)
from stromboli.kube.settings import KubeAccess, Limits
from stromboli.kube.transport import Answer
from stromboli.kube.watching import Watch
from stromboli.kube.wire import (
    Deleted,
    EventType,
    Page,
    PatchType,
    ServerVersion,
    WatchEvent,
    Written,
)

__all__ = [
    "Answer",
    "Backoff",
    "Body",
    "Bookmark",
    "Change",
    "Changed",
    "Deleted",
    "EventType",
    "Interrupted",
    "KubeAccess",
    "KubeClient",
    "Limits",
    "ListAbandoned",
    "ListDone",
    "ListPage",
    "ListReason",
    "ListStarted",
    "Page",
    "PatchType",
    "Reflector",
    "ReflectorHealth",
    "ReflectorSettings",
    "Resource",
    "ResourceKind",
    "ServerVersion",
    "Watch",
    "WatchEvent",
    "Written",
    "last_look",
]
