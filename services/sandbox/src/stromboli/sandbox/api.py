"""The API without HTTP: a method, a path and a body become an answer or a watch.

Verbs and subresources are tables. This module finds out what is asked and of which resource,
and hands over; it knows nothing about sockets and nothing about kinds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from stromboli.sandbox import statuses
from stromboli.sandbox.catalogue import Catalogue
from stromboli.sandbox.changes import Change
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.deleting import Deleter
from stromboli.sandbox.endpoints import Endpoints
from stromboli.sandbox.negotiation import PLAIN
from stromboli.sandbox.options import NO_PARAMS, Params, check_list_options, parsed
from stromboli.sandbox.paths import Target
from stromboli.sandbox.printing.tables import Form, form_asked
from stromboli.sandbox.reading import Reader, revision_asked
from stromboli.sandbox.remote import Passage
from stromboli.sandbox.requests import Answer, ApiRequest, User
from stromboli.sandbox.resources import Served, Subresource
from stromboli.sandbox.reviews import REVIEWS, review
from stromboli.sandbox.selection import Selection, selection_of
from stromboli.sandbox.store import Store
from stromboli.sandbox.subresources.binding import bind
from stromboli.sandbox.subresources.eviction import evict
from stromboli.sandbox.subresources.finalize import finalize
from stromboli.sandbox.subresources.log import log
from stromboli.sandbox.subresources.proxy import proxy
from stromboli.sandbox.subresources.scale import scale
from stromboli.sandbox.watching import Watcher, WatchHub
from stromboli.sandbox.webhooks.reviewing import Admission
from stromboli.sandbox.writing import Writer

__all__ = ["Api", "WatchStream"]

_OPTIONS_KIND: Final = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
    "GET": "ListOptions",
}
_Act: TypeAlias = Callable[[ApiRequest], Awaitable[Answer]]
_FRESHNESS_WAIT_S: Final = 3.0
"""How long a read waits for a revision that does not exist yet, as in kube."""


class WatchStream(msgspec.Struct, frozen=True):
    watcher: Watcher
    timeout_s: int


class Api:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        *,
        writer: Writer,
        deleter: Deleter,
        hub: WatchHub,
        clock: Clock,
        admission: Admission,
        endpoints: Endpoints,
        tokens: Mapping[str, User],
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._reader = Reader(store)
        self._writer = writer
        self._deleter = deleter
        self._hub = hub
        self._clock = clock
        self._admission = admission
        self._endpoints = endpoints
        self._tokens = tokens
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._subresources: dict[tuple[str, str, str], _Act] = {
            ("pods", "binding", "create"): lambda request: bind(request, store, clock, admission),
            ("pods", "eviction", "create"): lambda request: evict(
                request, store, clock, deleter, admission
            ),
            ("namespaces", "finalize", "update"): lambda request: finalize(
                request, store, admission
            ),
        }
        for key in ("apps/deployments", "apps/replicasets", "apps/statefulsets"):
            for verb in ("get", "update", "patch"):
                self._subresources[key, "scale", verb] = lambda request: scale(
                    request, store, writer, admission
                )
        self._verbs: dict[str, _Act] = {
            "create": writer.create,
            "update": writer.update,
            "patch": writer.patch,
            "delete": deleter.delete,
        }
        store.listen(self._advance)

    async def handle(
        self,
        method: str,
        target: Target,
        query: str,
        *,
        body: bytes,
        content_type: str,
        user: User,
        form: str = PLAIN,
        warnings: list[str] | None = None,
    ) -> Answer | WatchStream | Passage:
        """Answer one request; `form` is how a reader wants to be shown what it asked for.

        What the client should be told besides is added to `warnings`.
        """
        warnings = [] if warnings is None else warnings
        review_key = (target.group, target.version, target.plural)
        if review_key in REVIEWS and method == "POST":
            return review(review_key, body, user, self._tokens)
        served = self._catalogue.find(target.group, target.version, target.plural)
        if served is None and target.plural == "bindings" and method == "POST":
            return await self._bind_by_collection(target, query, body, user, warnings)
        if served is None or not _placed(target, served):
            raise statuses.resource_not_served()
        is_foreign = target.subresource in {"log", "proxy"}
        params = (
            parsed(query, _OPTIONS_KIND.get(method, "")) if query and not is_foreign else NO_PARAMS
        )
        verb = _verb(method, target, params)
        request = ApiRequest(
            verb,
            served,
            target.namespace,
            target.name,
            target.subresource,
            params,
            body,
            content_type,
            user,
            warnings,
        )
        if is_foreign:
            return await self._elsewhere(request, target, query)
        if target.subresource:
            return await self._subresource(request)
        if verb not in served.resource.verbs or (
            verb in {"create", "deletecollection"}
            and served.resource.namespaced
            and not target.namespace
        ):
            raise statuses.method_not_allowed()
        if verb in {"list", "watch", "get"}:
            if form != PLAIN:
                return await self._read_in_form(request, form)
            return await self._read(request)
        if verb == "deletecollection":
            return await self._deleter.delete_collection(request, _selection(request))
        return await self._verbs[verb](request)

    async def _elsewhere(self, request: ApiRequest, target: Target, query: str) -> Answer | Passage:
        """Parts of objects that others have: a kubelet, or what runs in the pod."""
        part = self._part(request)
        if part.name == "log":
            if request.verb not in part.verbs:
                raise statuses.method_not_allowed()
            return log(request, query, self._store)
        return await proxy(
            request,
            target.beyond,
            query,
            store=self._store,
            endpoints=self._endpoints,
            admission=self._admission,
        )

    def _part(self, request: ApiRequest) -> Subresource:
        for part in request.served.subresources:
            if part.name == request.subresource:
                return part
        resource = request.served.resource
        if resource.custom:
            raise statuses.not_found(resource.group, resource.plural, request.name)
        raise statuses.resource_not_served()

    async def _subresource(self, request: ApiRequest) -> Answer:
        part = self._part(request)
        if request.verb not in part.verbs:
            raise statuses.method_not_allowed()
        if part.name == "status":
            if request.verb == "get":
                return self._reader.get(request)
            return await self._verbs[request.verb](request)
        act = self._subresources[request.served.resource.key, part.name, request.verb]
        return await act(request)

    async def _bind_by_collection(
        self, target: Target, query: str, body: bytes, user: User, warnings: list[str]
    ) -> Answer:
        """POST …/bindings, the older way: the pod's name stands in the body only."""
        pods = self._catalogue.find("", "v1", "pods")
        if pods is None or not target.namespace or target.name:
            raise statuses.resource_not_served()
        try:
            name = msgspec.json.decode(body, type=_Named).metadata.name
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise statuses.bad_request(f"the Binding cannot be read: {error}") from error
        params = parsed(query, "CreateOptions")
        request = ApiRequest(
            "create", pods, target.namespace, name, "binding", params, body, "", user, warnings
        )
        return await self._subresources["pods", "binding", "create"](request)

    async def _read_in_form(self, request: ApiRequest, name: str) -> Answer | WatchStream:
        form = form_asked(
            name,
            request.served.printer,
            include=request.params.include_object,
            clock=self._clock,
        )
        answer = await self._read(request, form)
        if isinstance(answer, WatchStream):
            return answer
        return msgspec.structs.replace(answer, body=form.shown(answer.body))

    async def _read(self, request: ApiRequest, form: Form | None = None) -> Answer | WatchStream:
        params = request.params
        watch = request.verb == "watch"
        if request.verb != "get":
            check_list_options(params, watch=watch)
        asked = revision_asked(params) if params.resource_version else 0
        if asked > self._store.revision and not watch:
            await self._until(asked)
        if request.verb == "get":
            return self._reader.get(request)
        selection = _selection(request)
        if watch:
            return self._watch(request, selection, asked, form)
        return self._reader.list_page(request, selection)

    def _watch(
        self, request: ApiRequest, selection: Selection, asked: int, form: Form | None
    ) -> WatchStream:
        params = request.params
        wants_initial = params.send_initial_events
        initial = wants_initial if wants_initial is not None else asked == 0
        watcher = self._hub.open(
            request.served,
            selection,
            since=asked or None,
            initial=initial,
            mark_initial_end=bool(wants_initial) and params.bookmarks,
            bookmarks=params.bookmarks,
            form=form,
        )
        return WatchStream(watcher, params.timeout_s)

    async def _until(self, revision: int) -> None:
        """Wait a little for a revision from the future: a client may have heard of it early."""
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, arrived)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(_FRESHNESS_WAIT_S):
                await arrived
        except TimeoutError:
            raise statuses.resource_version_too_large(revision, self._store.revision) from None
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _advance(self, change: Change) -> None:
        if self._waiting:
            for revision, arrived in self._waiting:
                if revision <= change.revision and not arrived.done():
                    arrived.set_result(None)


class _NamedMetadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _NamedMetadata = msgspec.field(default_factory=_NamedMetadata)


def _placed(target: Target, served: Served) -> bool:
    """True if the path has a namespace exactly where the resource needs one."""
    if served.resource.namespaced:
        return bool(target.namespace) or not target.name
    return not target.namespace


def _verb(method: str, target: Target, params: Params) -> str:
    match method:
        case "GET" if target.name:
            return "watch" if target.watch else "get"
        case "GET":
            return "watch" if params.watch or target.watch else "list"
        case "POST":
            # A name without a subresource cannot be created: it is chosen by the body.
            return "create" if target.subresource or not target.name else ""
        case "PUT":
            return "update" if target.name else ""
        case "PATCH":
            return "patch" if target.name else ""
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case _:
            return ""


def _selection(request: ApiRequest) -> Selection:
    return selection_of(
        request.served.resource,
        request.namespace,
        labels=request.params.label_selector,
        fields=request.params.field_selector,
        name=request.name,
    )
