"""Create, update and patch: the road every changed object takes to the store.

The order is kube's: read, identity, defaults, admission, validation, then the write. If no webhook
wants to be asked, everything from looking at the current object to committing the new one
happens in one step of the loop, so two writes never interleave. Where webhooks are asked, time
passes: an object that somebody else changed meanwhile is looked at again from the beginning, so
that a patch is made on what is there and an update of an old version is a conflict. A request
that loses its client half-way has either happened or not.
"""

from collections.abc import Awaitable, Callable

import msgspec

from stromboli.sandbox import causes, commits, incoming, metadata, statuses
from stromboli.sandbox.apply.applying import applied, first_applied
from stromboli.sandbox.apply.managers import APPLIED, UPDATED, Manager, after_update
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.changes import Stored
from stromboli.sandbox.clock import Clock
from stromboli.sandbox.documents import Document, same_document
from stromboli.sandbox.names import generated_name
from stromboli.sandbox.patches import (
    APPLY,
    PATCHES,
    PATCHES_OF_BUILT_IN,
    PATCHES_OF_CUSTOM,
    STRATEGIC,
    PatchFailed,
    PatchUnreadable,
)
from stromboli.sandbox.requests import Answer, ApiRequest, answered
from stromboli.sandbox.resources import Resource, Served
from stromboli.sandbox.shapes.shape import ANY
from stromboli.sandbox.store import Store
from stromboli.sandbox.strategic import strategic_merge
from stromboli.sandbox.strictness import check_known_fields, shape_of
from stromboli.sandbox.webhooks.reviewing import Admission, Review

__all__ = ["Raced", "Writer", "unraced"]

_NAME_ATTEMPTS = 8
_RACES = 100
_FILLED_IN = frozenset(
    {"uid", "creationTimestamp", "generation", "managedFields", "selfLink"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds"}
)


class Raced(Exception):
    """The object changed while webhooks were asked about the change to it."""


async def unraced(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Attempt it again, from the beginning, as often as somebody else was faster."""
    for _ in range(_RACES):
        try:
            return await attempt()
        except Raced:
            continue
    raise statuses.too_many_requests("the object changes faster than webhooks answer")


class Writer:
    def __init__(self, store: Store, clock: Clock, admission: Admission | None = None) -> None:
        """Without an admission nobody is asked: what a new cluster starts with is its own."""
        self._store = store
        self._clock = clock
        self._admission = admission

    def _review(self, request: ApiRequest, operation: str) -> Review | None:
        return None if self._admission is None else self._admission.of(request, operation)

    async def create(self, request: ApiRequest) -> Answer:
        return await self._create(request, incoming.document_of(request))

    async def _create(
        self, request: ApiRequest, document: Document, *, managers: list[Document] | None = None
    ) -> Answer:
        served = request.served
        resource = served.resource
        _check_namespace(document["metadata"], request.namespace)
        self._admit_namespace(resource, request.namespace, document)
        served.behaviour.default(document)
        served.behaviour.admit_create(document, self._store)
        review = self._review(request, "CREATE")
        if review is not None:
            document = await _changed(review, _unowned(document), None, served)
            _check_namespace(document["metadata"], request.namespace)
        document["metadata"] = metadata.complete_for_create(
            document["metadata"],
            namespace=request.namespace,
            timestamp=self._clock.timestamp(),
            generation=resource.has_generation,
        )
        served.behaviour.prepare_create(document)
        found = metadata.validation_causes(document["metadata"], name_rule=resource.name_rule)
        found += served.behaviour.validate(document)
        meta = document["metadata"]
        if found:
            raise statuses.invalid(resource.group, resource.kind, meta["name"], found)
        if review is not None:
            await review.approve({**document, "metadata": metadata.canonical(meta)}, None)
            self._admit_namespace(resource, request.namespace, document)
        self._find_free_name(resource, meta)
        if managers:
            meta["managedFields"] = managers
        if request.params.dry_run:
            meta.pop("resourceVersion", None)
            return answered(201, document)
        return stored_answer(201, commits.put(self._store, resource, document), served)

    def _find_free_name(self, resource: Resource, meta: Document) -> None:
        """A made-up name is made up again if it is taken; a chosen one is a conflict."""
        namespace = meta.get("namespace", "")
        for _ in range(_NAME_ATTEMPTS):
            if self._store.get(resource.key, namespace, meta["name"]) is None:
                return
            if not meta.get("generateName") or not meta["name"].startswith(meta["generateName"]):
                break
            meta["name"] = generated_name(meta["generateName"])
        raise statuses.already_exists(resource.group, resource.plural, meta["name"])

    def _admit_namespace(self, resource: Resource, namespace: str, document: Document) -> None:
        """Content goes into namespaces that exist and will go on existing."""
        if not resource.namespaced:
            return
        name = document["metadata"].get("name", "")
        stored = self._store.get("namespaces", "", namespace)
        if stored is None:
            raise statuses.not_found("", "namespaces", namespace)
        if stored.fields[0] == "Terminating":
            why = (
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated"
            )
            cause = Cause(
                "NamespaceTerminating",
                f"namespace {namespace} is being terminated",
                "metadata.namespace",
            )
            raise statuses.forbidden(resource.group, resource.plural, name, why, causes=[cause])

    async def update(self, request: ApiRequest) -> Answer:
        return await unraced(lambda: self._update(request))

    async def _update(self, request: ApiRequest) -> Answer:
        served = request.served
        resource = served.resource
        document = incoming.document_of(request)
        old = self._store.get(resource.key, request.namespace, request.name)
        given = document["metadata"]
        _check_name(given, request.name)
        _check_namespace(given, request.namespace)
        if old is None:
            if resource.create_on_update and not request.subresource:
                given["name"] = request.name
                return await self._create(request, document)
            raise statuses.not_found(resource.group, resource.plural, request.name)
        if given.get("uid", old.uid) != old.uid:
            raise uid_mismatch(resource, old, given["uid"])
        revision = given.get("resourceVersion", "")
        if revision in {"", "0"}:
            if not resource.unconditional_update:
                detail = "must be specified for an update"
                cause = causes.invalid("metadata.resourceVersion", 0, detail)
                raise statuses.invalid(resource.group, resource.plural, request.name, [cause])
        elif revision != str(old.revision):
            raise statuses.modified(resource.group, resource.plural, request.name)
        return await self.replace(request, old, document)

    async def patch(self, request: ApiRequest) -> Answer:
        if request.content_type == APPLY:
            return await unraced(lambda: self._apply(request))
        return await unraced(lambda: self._patch(request))

    async def _patch(self, request: ApiRequest) -> Answer:
        served = request.served
        resource = served.resource
        change = _patch_of(request)
        old = self._store.get(resource.key, request.namespace, request.name)
        if old is None:
            raise statuses.not_found(resource.group, resource.plural, request.name)
        try:
            document = change(request.body, incoming.shown_version(old.body, served))
        except PatchUnreadable as error:
            raise statuses.bad_request(str(error)) from error
        except PatchFailed as error:
            raise statuses.patch_failed() from error
        if request.params.strict:
            before = incoming.shown_version(old.body, served)
            check_known_fields(document, served, before)
        document = incoming.patched(document, served)
        meta = document["metadata"]
        _check_name(meta, request.name)
        _check_namespace(meta, request.namespace)
        if meta.get("resourceVersion", "") not in {"", str(old.revision)}:
            raise statuses.modified(resource.group, resource.plural, request.name)
        return await self.replace(request, old, document)

    async def _apply(self, request: ApiRequest) -> Answer:
        """Make a manager's wishes true: of an object that is there, or by creating it."""
        served = request.served
        resource = served.resource
        wish = incoming.wish_of(request)
        shape = shape_of(served) or ANY
        by = self._manager(request, APPLIED)
        given = wish["metadata"]
        _check_name(given, request.name)
        _check_namespace(given, request.namespace)
        old = self._store.get(resource.key, request.namespace, request.name)
        if old is None:
            if request.subresource:
                raise statuses.not_found(resource.group, resource.plural, request.name)
            if given.get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {given['uid']}, and no"
                    " existing object was found"
                )
                raise statuses.conflict(resource.group, resource.plural, request.name, why)
            managers = first_applied(wish, shape, by=by)
            return await self._create(request, wish, managers=managers)
        if given.get("uid", old.uid) != old.uid:
            raise uid_mismatch(resource, old, given["uid"])
        if given.pop("resourceVersion", "") not in {"", str(old.revision)}:
            raise statuses.modified(resource.group, resource.plural, request.name)
        live = incoming.shown_version(old.body, served)
        document, managers = applied(live, wish, shape, by=by, force=request.params.force)
        document = incoming.patched(document, served)
        return await self.replace(request, old, document, managers=managers)

    def _note_owners(
        self,
        request: ApiRequest,
        document: Document,
        before: Document,
        *,
        managers: list[Document] | None,
    ) -> None:
        """Keep managedFields true; objects that were never applied have none to keep."""
        if managers is None and "managedFields" in before["metadata"]:
            by = self._manager(request, UPDATED)
            managers = after_update(document, before, shape_of(request.served) or ANY, by=by)
        if managers is not None:
            document["metadata"]["managedFields"] = managers

    def _manager(self, request: ApiRequest, operation: str) -> Manager:
        return Manager(
            name=request.params.field_manager or "unknown",
            operation=operation,
            api_version=request.served.api_version,
            fields=frozenset(),
            time=self._clock.timestamp(),
            subresource=request.subresource,
        )

    async def replace(
        self,
        request: ApiRequest,
        old: Stored,
        document: Document,
        *,
        managers: list[Document] | None = None,
        reviewed: bool = False,
    ) -> Answer:
        """Make `document` the new version of a stored object, as far as its rules allow.

        `managers` is who owns its fields afterwards, if the caller knows. Raced if webhooks were
        asked and the object is another one now.
        """
        served = request.served
        resource, behaviour = served.resource, served.behaviour
        before = incoming.shown_version(old.body, served)
        review = None if reviewed else self._review(request, "UPDATE")
        if review is not None:
            behaviour.default(document)
            document = await _changed(review, document, before, served)
        document = self._completed(request, document, before)
        self._note_owners(request, document, before, managers=managers)
        if review is not None:
            await review.approve(document, before)
            if self._store.get(resource.key, request.namespace, request.name) is not old:
                raise Raced
        if same_document(document, before):
            return stored_answer(200, old, served)
        if request.params.dry_run:
            return answered(200, document)
        if "deletionTimestamp" in document["metadata"] and _may_go(document, served):
            commits.remove(self._store, resource, old)
            return answered(200, document)
        return stored_answer(200, commits.put(self._store, resource, document), served)

    def _completed(self, request: ApiRequest, document: Document, before: Document) -> Document:
        """The document with what the server keeps or fills in; Invalid if it breaks a rule."""
        served = request.served
        resource, behaviour = served.resource, served.behaviour
        is_status = request.subresource == "status"
        if is_status:
            document = _with_new_status(document, before, served)
        elif served.has_status:
            _keep(document, before, "status")
        new_meta = metadata.complete_for_update(document["metadata"], before["metadata"])
        document["metadata"] = new_meta
        behaviour.default(document)
        if is_status:
            behaviour.prepare_status(document, before)
        else:
            behaviour.prepare_update(document, before)
        if resource.has_generation and behaviour.next_generation(document, before):
            new_meta["generation"] = before["metadata"].get("generation", 0) + 1
        found = _update_causes(document, before, served, is_status=is_status)
        if found:
            raise statuses.invalid(resource.group, resource.kind, request.name, found)
        return document


async def _changed(
    review: Review, document: Document, before: Document | None, served: Served
) -> Document:
    """The document after the mutating webhooks, whole again."""

    def settled(patched: Document) -> Document:
        try:
            whole = incoming.typed(patched, served)
        except msgspec.ValidationError as error:
            raise statuses.internal_error(
                f"a webhook made an object that is no {served.resource.kind}: {error}"
            ) from error
        served.behaviour.default(whole)
        return whole

    changed = await review.changed(document, before, settled=settled)
    return document if changed is None else changed


def _unowned(document: Document) -> Document:
    """A new object without what the server will fill in; webhooks see it as it was sent."""
    meta = {k: v for k, v in document["metadata"].items() if k not in _FILLED_IN}
    return {**document, "metadata": meta}


def stored_answer(code: int, stored: Stored, served: Served) -> Answer:
    return Answer(code, served.body(stored.body), stored.name, stored.uid, str(stored.revision))


def uid_mismatch(resource: Resource, old: Stored, given: str) -> Exception:
    why = (
        "StorageError: invalid object, Code: 4, Key: "
        f"{resource.etcd_key(old.namespace, old.name)}, ResourceVersion: 0, AdditionalErrorMsg:"
        f" Precondition failed: UID in precondition: {given}, UID in object meta: {old.uid}"
    )
    return statuses.conflict(resource.group, resource.plural, old.name, why)


def _patch_of(request: ApiRequest) -> Callable[[bytes, Document], Document]:
    offered = PATCHES_OF_CUSTOM if request.served.resource.custom else PATCHES_OF_BUILT_IN
    if request.content_type not in offered:
        raise statuses.unsupported_media_type(offered)
    if request.content_type == STRATEGIC:
        shape = shape_of(request.served) or ANY
        return lambda body, document: strategic_merge(body, document, shape)
    return PATCHES[request.content_type]


def _check_name(given: Document, name: str) -> None:
    named = given.get("name", "")
    if named and named != name:
        raise statuses.bad_request(
            f"the name of the object ({named}) does not match the name on the URL ({name})"
        )
    given["name"] = name


def _check_namespace(given: Document, namespace: str) -> None:
    named = given.get("namespace", "")
    if named and named != namespace:
        raise statuses.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        given["namespace"] = namespace


def _keep(document: Document, before: Document, field: str) -> None:
    document.pop(field, None)
    if field in before:
        document[field] = before[field]


def _with_new_status(document: Document, before: Document, served: Served) -> Document:
    """The stored object with the status sent; built-in kinds also take labels and the like."""
    result: Document = {**before}
    _keep(result, document, "status")
    if not served.resource.custom:
        result["metadata"] = document["metadata"]
    return result


def _update_causes(
    document: Document, before: Document, served: Served, *, is_status: bool
) -> list[Cause]:
    """What is wrong with a change; a built-in kind's status has no rules of its own."""
    behaviour = served.behaviour
    found = metadata.update_causes(document["metadata"], before["metadata"])
    if served.resource.custom or not is_status:
        found += behaviour.validate(document)
    if not is_status:
        found += behaviour.validate_update(document, before)
    return found


def _may_go(document: Document, served: Served) -> bool:
    """A deleted object goes when its last finalizer does and nobody has to stop it first."""
    grace = document["metadata"].get("deletionGracePeriodSeconds", 0)
    return not grace and not served.behaviour.is_held(document)
