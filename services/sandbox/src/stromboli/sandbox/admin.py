"""Doors for tests that the real server does not have, under /sandbox/.

POST /sandbox/compact {"revision": n} forgets the past up to n (all of it if n is left out), so
that a test can meet 410 Gone without waiting. GET /sandbox/state tells counts.
"""

import msgspec

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import encode
from stromboli.sandbox.requests import Answer
from stromboli.sandbox.store import Store

__all__ = ["Admin"]


class CompactRequest(msgspec.Struct):
    revision: int | None = None


class Admin:
    def __init__(self, store: Store) -> None:
        self._store = store

    def handle(self, method: str, path: str, body: bytes) -> Answer:
        match method, path:
            case "POST", "/sandbox/compact":
                return self._compact(body)
            case "GET", "/sandbox/state":
                return self._state()
            case _:
                raise statuses.resource_not_served()

    def _compact(self, body: bytes) -> Answer:
        try:
            wanted = msgspec.json.decode(body or b"{}", type=CompactRequest).revision
        except msgspec.MsgspecError as error:
            raise statuses.bad_request(f'expected {{"revision": n}}: {error}') from error
        current = self._store.revision
        revision = current if wanted is None else wanted
        if not 0 <= revision <= current:
            raise statuses.bad_request(f"revision {revision} is not between 0 and {current}")
        self._store.compact(revision)
        return Answer(200, encode({"revision": revision}))

    def _state(self) -> Answer:
        counts = {key: len(bucket.objects) for key, bucket in sorted(self._store.buckets.items())}
        return Answer(200, encode({"revision": self._store.revision, "objects": counts}))
