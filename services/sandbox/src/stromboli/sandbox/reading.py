"""Get and list: stored bytes put together, as of now or as of a revision still remembered.

A list is a snapshot. Its pages name the revision of the first one, and later pages are rebuilt
from the history as of that revision, so no object is seen twice or missed; when the history no
longer reaches that far the answer is 410 with a token to go on from the present.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

import msgspec

from stromboli.sandbox import statuses
from stromboli.sandbox.changes import Key, Stored
from stromboli.sandbox.options import Params
from stromboli.sandbox.requests import Answer, ApiRequest
from stromboli.sandbox.selection import Selection
from stromboli.sandbox.store import Bucket, Store

__all__ = ["Reader", "revision_asked"]

_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - names the format, opens nothing
_LATEST: Final = -1
_CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


class ContinueToken(msgspec.Struct, frozen=True):
    v: str
    rv: int
    start: tuple[str, str]
    """The last key of the page before."""


class Reader:
    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, request: ApiRequest) -> Answer:
        served = request.served
        resource = served.resource
        stored = self._store.get(resource.key, request.namespace, request.name)
        if stored is None:
            raise statuses.not_found(resource.group, resource.plural, request.name)
        return Answer(200, served.body(stored.body))

    def list_page(self, request: ApiRequest, selection: Selection) -> Answer:
        """One page, or all; the caller has waited until the asked revision exists."""
        served, params = request.served, request.params
        bucket = self._store.bucket(served.resource.key)
        token = _token(params)
        revision, objects = self._snapshot(bucket, params, token)
        keys = sorted(objects) if objects is not bucket.objects else bucket.sorted_keys()
        if token is not None:
            keys = keys[bisect_right(keys, token.start) :]
        single = token is None and selection.namespace and selection.single_name
        if single:
            keys = [key for key in ((selection.namespace, single),) if key in objects]
        chosen = _chosen(keys, objects, selection)
        meta: dict[str, str | int] = {"resourceVersion": str(revision)}
        if 0 < params.limit < len(chosen):
            last = chosen[params.limit - 1]
            meta["continue"] = _encoded(ContinueToken(_TOKEN_VERSION, revision, last.key))
            if selection.selects_all:
                meta["remainingItemCount"] = len(chosen) - params.limit
            chosen = chosen[: params.limit]
        head = (
            f'{{"kind":"{served.resource.list_kind}","apiVersion":"{served.api_version}",'
            f'"metadata":{msgspec.json.encode(meta).decode()},"items":['
        )
        items = b",".join([served.body(stored.body) for stored in chosen])
        return Answer(200, b"".join((head.encode(), items, b"]}")))

    def _snapshot(
        self, bucket: Bucket, params: Params, token: ContinueToken | None
    ) -> tuple[int, Mapping[Key, Stored]]:
        """The revision of a list and the objects as they were then."""
        if token is not None:
            if token.rv == _LATEST:
                return self._store.revision, bucket.objects
            if not bucket.history.covers(token.rv):
                fresh = _encoded(ContinueToken(_TOKEN_VERSION, _LATEST, token.start))
                raise statuses.expired(_CONTINUE_EXPIRED, continue_token=fresh)
            return token.rv, self._at(bucket, token.rv)
        asked = revision_asked(params)
        exact = params.resource_version_match == "Exact" or (
            # Old clients: a page at a revision without saying how exactly means exactly.
            params.limit > 0 and asked > 0 and not params.resource_version_match
        )
        if not exact or asked == 0:
            return self._store.revision, bucket.objects
        if not bucket.history.covers(asked):
            raise statuses.expired("The resourceVersion for the provided list is too old.")
        return asked, self._at(bucket, asked)

    def _at(self, bucket: Bucket, revision: int) -> Mapping[Key, Stored]:
        return bucket.at(revision) if bucket.history.after(revision) else bucket.objects


def revision_asked(params: Params) -> int:
    """The resourceVersion parameter as a number; 0 stands for "any" and for "the newest"."""
    text = params.resource_version
    if text in {"", "0"}:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise statuses.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text[:64]}":'
            f' strconv.ParseUint: parsing "{text[:64]}": invalid syntax'
        )
    return int(text)


def _token(params: Params) -> ContinueToken | None:
    if not params.continue_token:
        return None
    if params.resource_version not in {"", "0"}:
        message = "specifying resource version is not allowed when using continue"
        raise statuses.bad_request(message)
    text = params.continue_token
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(data, type=ContinueToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        message = f"invalid continue token: continue key is not valid: {error}"
        raise statuses.bad_request(message) from error
    if token.v != _TOKEN_VERSION:
        message = "invalid continue token: continue key is not valid: server does not recognize"
        raise statuses.bad_request(f"{message} this encoded version {token.v!r}")
    return token


def _encoded(token: ContinueToken) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _chosen(keys: list[Key], objects: Mapping[Key, Stored], selection: Selection) -> list[Stored]:
    if selection.selects_all and not selection.namespace:
        return [objects[key] for key in keys]
    return [stored for key in keys if selection.matches(stored := objects[key])]
