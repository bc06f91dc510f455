"""A Kubernetes API server in memory, as far as the gateway uses one.

One counter gives every write its version. A bind is refused when the pod has a node, is another
or is
ending; a pod that was told to go stays for its grace period; a watch tells of each change in order.
Nothing is validated and nothing defaulted: for that there is the sandbox.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from stromboli.testkit.virtual_time import START

__all__ = ["Event", "MemoryCluster", "Refused", "WatchFeed"]

Document = dict[str, Any]
Place = tuple[str, str, str]
"""(plural, namespace, name)."""

_DEFAULT_GRACE_S: Final = 30
_encoder = msgspec.json.Encoder()


class Refused(Exception):
    """The API server says no."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.body = _encoder.encode(
            {
                "kind": "Status",
                "status": "Failure",
                "message": message,
                "reason": reason,
                "code": code,
                "details": details,
            }
        )


@dataclass(slots=True, frozen=True)
class Event:
    """One change, as watches tell of it."""

    version: int
    type: str
    place: Place
    document: Document
    line: bytes


class WatchFeed:
    """One watch: what it has not been told yet."""

    def __init__(self, delay_s: Callable[[], float], context: Context) -> None:
        self._delay_s = delay_s
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._last_at = 0.0
        self._arrived: list[bytes] = []
        self._wake = asyncio.Event()
        self._ended = False

    def tell(self, line: bytes) -> None:
        self._at(line)

    def end(self) -> None:
        """After what is on its way."""
        self._at(None)

    def _at(self, line: bytes | None) -> None:
        self._last_at = max(self._loop.time() + self._delay_s(), self._last_at + 1e-6)
        self._loop.call_at(self._last_at, self._arrive, line, context=self._context)

    def _arrive(self, line: bytes | None) -> None:
        if line is None:
            self._ended = True
        else:
            self._arrived.append(line)
        self._wake.set()

    async def read_chunk(self) -> bytes:
        while not self._arrived and not self._ended:
            self._wake.clear()
            await self._wake.wait()
        lines, self._arrived = self._arrived, []
        return b"".join(lines)


@dataclass(slots=True)
class _Kind:
    objects: dict[tuple[str, str], Document] = field(
        default_factory=dict[tuple[str, str], Document]
    )
    history: list[Event] = field(default_factory=list[Event])
    floor: int = 0
    watches: set[WatchFeed] = field(default_factory=set[WatchFeed])


@dataclass(slots=True, frozen=True)
class _Request:
    method: str
    place: Place
    subresource: str
    query: Mapping[str, str]
    body: Any


class MemoryCluster:
    """All objects, and who watches them."""

    def __init__(self) -> None:
        self.version = 100
        self.context = Context()
        self.observers: list[Callable[[Event], None]] = []
        self.under_way = 0
        """Calls that were made and are not executed yet."""
        self.slow_s: Callable[[str, str], float] = lambda _method, _path: 0.0
        """How long a call waits before it is executed, by method and path."""
        self.is_refused: Callable[[str, str], bool] = lambda _method, _path: False
        """Calls that are turned away before anything is done."""
        self.is_unanswered: Callable[[str, str], bool] = lambda _method, _path: False
        """Calls that are executed, and nobody hears of it."""
        self._loop = asyncio.get_running_loop()
        self._kinds: dict[str, _Kind] = {}
        self._uids = 0
        self._pages: dict[str, list[Document]] = {}

    # For tests: as a user, a controller or a kubelet.

    def objects(self, plural: str) -> Mapping[tuple[str, str], Document]:
        return self._kind(plural).objects

    def put(self, plural: str, document: Document) -> Document:
        """Create an object."""
        metadata: Document = document["metadata"]
        place = (plural, metadata.get("namespace", ""), metadata["name"])
        if place[1:] in self._kind(plural).objects:
            raise _refused_as(place, 409, "AlreadyExists", "already exists")
        self._uids += 1
        made = {
            **document,
            "metadata": {
                **metadata,
                "uid": f"uid-{self._uids}",
                "creationTimestamp": self.date(),
            },
        }
        return self._write("ADDED", place, made)

    def merge(self, place: Place, patch: Document) -> Document:
        """Change an object; nothing happens if that changes nothing."""
        found = self._existing(place)
        changed = _merged(found, patch)
        return found if changed == found else self._write("MODIFIED", place, changed)

    def remove(self, place: Place) -> None:
        """It is gone."""
        found = self._existing(place)
        del self._kind(place[0]).objects[place[1:]]
        self._write("DELETED", place, found)

    def compact(self) -> None:
        """Forget what was: who watches from the past has to list."""
        for kind in self._kinds.values():
            kind.floor = self.version
            kind.history.clear()

    def end_watches(self) -> None:
        for kind in self._kinds.values():
            for watch in tuple(kind.watches):
                watch.end()
            kind.watches.clear()

    def send_bookmarks(self) -> None:
        line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}\n'
        for kind in self._kinds.values():
            for watch in kind.watches:
                watch.tell(line % self.version)

    def date(self, in_s: float = 0.0) -> str:
        at = START + timedelta(seconds=self._loop.time() + in_s)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    # For clients.

    def handle(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        """The code and the body of the answer; raises `Refused`."""
        place, subresource = _place(path)
        decoded: Any = msgspec.json.decode(body) if body else {}
        request = _Request(method, place, subresource, query, decoded)
        match method, subresource:
            case "GET", "" if place[2]:
                return 200, _encoder.encode(self._existing(place))
            case "GET", "":
                return 200, self._list(request)
            case "POST", "":
                decoded["metadata"] = {**decoded["metadata"], "namespace": place[1]}
                return 201, _encoder.encode(self.put(place[0], decoded))
            case "POST", "binding":
                self._bind(request)
                return 201, _encoder.encode({"kind": "Status", "status": "Success"})
            case "POST", "eviction":
                self._delete(request, decoded.get("deleteOptions") or {})
                return 201, _encoder.encode({"kind": "Status", "status": "Success"})
            case "PATCH", _:
                return 200, _encoder.encode(self._patch(request))
            case "DELETE", "":
                return 200, _encoder.encode(self._delete(request, decoded))
            case _:
                raise NotImplementedError(f"{method} {path}")

    def watch(self, path: str, since: int, feed: WatchFeed) -> None:
        (plural, _, _), _ = _place(path)
        kind = self._kind(plural)
        if since < kind.floor:
            message = f"too old resource version: {since} ({kind.floor})"
            status = Refused(410, "Expired", message).body
            feed.tell(b'{"type":"ERROR","object":%b}\n' % status)
            feed.end()
            return
        for event in kind.history:
            if event.version > since:
                feed.tell(event.line)
        kind.watches.add(feed)

    def unwatch(self, feed: WatchFeed) -> None:
        for kind in self._kinds.values():
            kind.watches.discard(feed)

    def _kind(self, plural: str) -> _Kind:
        return self._kinds.setdefault(plural, _Kind())

    def _existing(self, place: Place) -> Document:
        found = self._kind(place[0]).objects.get(place[1:])
        if found is None:
            raise _refused_as(place, 404, "NotFound", "not found")
        return found

    def _write(self, type_: str, place: Place, document: Document) -> Document:
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        written = {**document, "metadata": metadata}
        kind = self._kind(place[0])
        if type_ != "DELETED":
            kind.objects[place[1:]] = written
        line = b'{"type":"%b","object":%b}\n' % (type_.encode(), _encoder.encode(written))
        event = Event(self.version, type_, place, written, line)
        kind.history.append(event)
        for watch in kind.watches:
            watch.tell(line)
        for observer in self.observers:
            observer(event)
        return written

    def _list(self, request: _Request) -> bytes:
        plural, namespace, _ = request.place
        token = request.query.get("continue", "")
        if token:
            version = token.partition("-")[0]
            items = self._pages.pop(token)
        else:
            version = str(self.version)
            items = [
                document
                for key, document in sorted(self._kind(plural).objects.items())
                if namespace in {"", key[0]} and _selected(document, request.query)
            ]
        limit = int(request.query.get("limit", "0")) or len(items)
        metadata: Document = {"resourceVersion": version}
        if len(items) > limit:
            metadata["continue"] = f"{version}-{len(self._pages)}-{len(items)}"
            self._pages[metadata["continue"]] = items[limit:]
        return _encoder.encode({"metadata": metadata, "items": items[:limit]})

    def _bind(self, request: _Request) -> None:
        place, body = request.place, request.body
        pod = self._existing(place)
        metadata = pod["metadata"]
        uid = body["metadata"].get("uid")
        if uid and uid != metadata["uid"]:
            raise _refused_as(place, 409, "Conflict", f"uid is {metadata['uid']}, not {uid}")
        if "deletionTimestamp" in metadata:
            raise _refused_as(place, 409, "Conflict", "is being deleted")
        if node := pod["spec"].get("nodeName"):
            raise _refused_as(place, 409, "Conflict", f"is already assigned to node {node!r}")
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": self.date(),
        }
        status = _merged(pod.get("status") or {}, {"conditions": [scheduled]})
        spec = {**pod["spec"], "nodeName": body["target"]["name"]}
        self._write("MODIFIED", place, {**pod, "spec": spec, "status": status})

    def _patch(self, request: _Request) -> Document:
        place, patch = request.place, dict(request.body)
        found = self._existing(place)
        metadata: Document = dict(patch.get("metadata") or {})
        for name in ("uid", "resourceVersion"):
            if (wanted := metadata.pop(name, None)) not in {None, found["metadata"][name]}:
                message = f"{name} is {found['metadata'][name]}, not {wanted}"
                raise _refused_as(place, 409, "Conflict", message)
        if request.subresource == "status":
            return self.merge(place, {"status": patch.get("status") or {}})
        patch.pop("status", None)
        return self.merge(place, {**patch, "metadata": metadata})

    def _delete(self, request: _Request, options: Document) -> Document:
        place = request.place
        found = self._existing(place)
        uid = (options.get("preconditions") or {}).get("uid")
        if uid and uid != found["metadata"]["uid"]:
            message = (
                f"the UID in the precondition ({uid}) does not match {found['metadata']['uid']}"
            )
            raise _refused_as(place, 409, "Conflict", message)
        grace_s = options.get("gracePeriodSeconds")
        if place[0] == "pods":
            return self.end_pod(place, _DEFAULT_GRACE_S if grace_s is None else grace_s)
        self.remove(place)
        return {"kind": "Status", "status": "Success", "details": {"uid": found["metadata"]["uid"]}}

    def end_pod(self, place: Place, grace_s: int) -> Document:
        """A pod on a node is given its time; the others go at once."""
        found = self._existing(place)
        metadata = found["metadata"]
        finished = (found.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        if finished or not grace_s or not found["spec"].get("nodeName"):
            self.remove(place)
            return found
        if "deletionTimestamp" in metadata:
            return found
        self._loop.call_later(
            grace_s, self._has_ended, place, metadata["uid"], context=self.context
        )
        marks = {"deletionTimestamp": self.date(grace_s), "deletionGracePeriodSeconds": grace_s}
        return self.merge(place, {"metadata": marks})

    def _has_ended(self, place: Place, uid: str) -> None:
        found = self._kind(place[0]).objects.get(place[1:])
        if found is not None and found["metadata"]["uid"] == uid:
            self.remove(place)


def _place(path: str) -> tuple[Place, str]:
    """Of `/api/v1/namespaces/test/pods/a/binding`: the place, and `binding`."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return (plural, namespace, name), subresource


def _selected(document: Document, query: Mapping[str, str]) -> bool:
    selector = query.get("fieldSelector", "")
    return not selector or document["metadata"]["name"] == selector.removeprefix("metadata.name=")


def _merged(document: Document, patch: Document) -> Document:
    """A merge patch, RFC 7386."""
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            merged[key] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _refused_as(place: Place, code: int, reason: str, why: str) -> Refused:
    plural, _, name = place
    return Refused(code, reason, f"{plural} {name!r} {why}", name=name, kind=plural)
