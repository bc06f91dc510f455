"""Before an object is written: those who may change it are asked in turn, then all who may refuse.

The order and the words are kube's. Those who change are asked in the order of their configurations'
names, and once more if they wish and somebody changed the object after them; those who only
judge are asked at the same time, and all are heard. A webhook that gives no usable answer
counts as a refusal, unless its configuration says to go on without it.

Nothing here writes. Time passes while others are asked, so whoever writes afterwards looks again.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import Document, decode, encode, same_document
from stromboli.sandbox.errors import ApiRefusal, WebhookUnreachable
from stromboli.sandbox.patches import PatchFailed, PatchUnreadable, json_patch
from stromboli.sandbox.requests import ApiRequest, User
from stromboli.sandbox.resources import Served
from stromboli.sandbox.store import Store
from stromboli.sandbox.webhooks.answers import Verdict, verdict_in
from stromboli.sandbox.webhooks.calling import Caller
from stromboli.sandbox.webhooks.conditions import ConditionError, holds
from stromboli.sandbox.webhooks.hooks import Hook, Hooks, Matched, Matching

__all__ = ["Admission", "Kind", "Review"]

_LOG: Final = logging.getLogger("stromboli.sandbox.webhooks")
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}

Labels: TypeAlias = dict[str, str]


class Kind(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Admission:
    """Where requests find out whether anybody wants to be asked."""

    def __init__(self, store: Store, hooks: Hooks, caller: Caller) -> None:
        self._store = store
        self._hooks = hooks
        self._caller = caller

    def of(
        self,
        request: ApiRequest,
        operation: str,
        *,
        kind: Kind | None = None,
        options: Document | None = None,
    ) -> "Review | None":
        """The review a request has to go through; None if nobody asked for one.

        `kind` is that of the object in the request, where it is not the resource's own.
        """
        matching = self._hooks.matching(operation, request.served, request.subresource)
        if matching is None:
            return None
        return Review(
            store=self._store,
            caller=self._caller,
            matching=matching,
            operation=operation,
            served=request.served,
            kind=kind,
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
            user=request.user,
            dry_run=request.params.dry_run,
            options=_options(request, operation) if options is None else options,
            warnings=request.warnings,
        )


def _options(request: ApiRequest, operation: str) -> Document | None:
    kind = _OPTIONS.get(operation)
    if kind is None:
        return None
    options: Document = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if request.params.dry_run:
        options["dryRun"] = ["All"]
    if request.params.field_manager:
        options["fieldManager"] = request.params.field_manager
    return options


@dataclass(slots=True, kw_only=True)
class Review:
    """One request on its way past the webhooks."""

    store: Store
    caller: Caller
    matching: Matching
    operation: str
    served: Served
    kind: Kind | None
    subresource: str
    namespace: str
    name: str
    user: User
    dry_run: bool
    options: Document | None
    warnings: list[str] = field(default_factory=list)

    async def changed(
        self,
        document: Document | None,
        old: Document | None,
        *,
        settled: Callable[[Document], Document] | None = None,
    ) -> Document | None:
        """The document as the mutating webhooks want it.

        `settled` makes a patched document whole again: types checked, defaults filled in.
        """
        asked_before: list[Matched] = []
        again: list[Matched] = []
        for matched in self.matching.mutating:
            patched = await self._ask_to_change(matched, document, old)
            if patched is not None and document is not None:
                patched = settled(patched) if settled is not None else patched
                if not same_document(patched, document):
                    document = patched
                    again += [one for one in asked_before if one not in again]
            if matched.hook.reinvoked:
                asked_before.append(matched)
        for matched in self.matching.mutating:
            if matched in again:
                patched = await self._ask_to_change(matched, document, old)
                if patched is not None:
                    document = settled(patched) if settled is not None else patched
        return document

    async def _ask_to_change(
        self, matched: Matched, document: Document | None, old: Document | None
    ) -> Document | None:
        """What the webhook makes of the document; None if it leaves it alone."""
        hook = matched.hook
        try:
            verdict = await self._verdict(matched, document, old)
            if verdict is None:
                return None
            if not verdict.patch or document is None:
                return None
        except WebhookUnreachable as problem:
            self._give_up(hook, problem)
            return None
        shown = self._shown(document, matched.version)
        try:
            patched = json_patch(verdict.patch, decode(encode(shown)))
        except (PatchUnreadable, PatchFailed) as problem:
            raise statuses.internal_error(str(problem)) from problem
        patched["apiVersion"] = document["apiVersion"]
        return patched

    async def approve(self, document: Document | None, old: Document | None) -> None:
        """Return if no validating webhook refuses; ApiRefusal with the words of the first."""
        judges = self.matching.validating
        if len(judges) == 1:
            problem = await self._judgement(judges[0], document, old)
            if problem is not None:
                raise problem
            return
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._judgement(matched, document, old)) for matched in judges
            ]
        for task in tasks:
            problem = task.result()
            if problem is not None:
                raise problem

    async def _judgement(
        self, matched: Matched, document: Document | None, old: Document | None
    ) -> ApiRefusal | None:
        try:
            await self._verdict(matched, document, old)
        except WebhookUnreachable as problem:
            try:
                self._give_up(matched.hook, problem)
            except ApiRefusal as refusal:
                return refusal
        except ApiRefusal as refusal:
            return refusal
        return None

    def _give_up(self, hook: Hook, problem: WebhookUnreachable) -> None:
        told = f'failed calling webhook "{hook.name}": {problem}'
        if not hook.ignore_failure:
            raise statuses.internal_error(told) from problem
        _LOG.warning("webhook.ignored", extra={"webhook": hook.name, "why": str(problem)})

    async def _verdict(
        self, matched: Matched, document: Document | None, old: Document | None
    ) -> Verdict | None:
        """What the webhook says; None if it does not want to be asked about this object."""
        hook = matched.hook
        if not self._is_concerned(hook, document, old):
            return None
        request = self._request(matched, document, old)
        if hook.conditions and not self._conditions_hold(hook, request):
            return None
        review = {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": request,
        }
        answer = await self.caller.ask(hook, encode(review))
        verdict = verdict_in(answer, uid=request["uid"], mutating=hook.mutating)
        self.warnings += verdict.warnings
        if not verdict.allowed:
            raise verdict.refusal(hook.name)
        return verdict

    def _is_concerned(self, hook: Hook, document: Document | None, old: Document | None) -> bool:
        labels = self._namespace_labels(document, old)
        if labels is not None and not hook.namespaces.matches(labels):
            return False
        selector = hook.objects
        if not selector.match_labels and not selector.match_expressions:
            return True
        return any(
            one is not None and "metadata" in one and selector.matches(_labels(one))
            for one in (document, old)
        )

    def _conditions_hold(self, hook: Hook, request: Document) -> bool:
        try:
            return _all_hold(hook, request)
        except ConditionError as problem:
            if not hook.ignore_failure:
                resource = self.served.resource
                name = request.get("name", "")
                raise statuses.forbidden(
                    resource.group, resource.plural, name, str(problem)
                ) from problem
            _LOG.warning("webhook.ignored", extra={"webhook": hook.name, "why": str(problem)})
            return False

    def _namespace_labels(self, document: Document | None, old: Document | None) -> Labels | None:
        """Of the namespace it is about; None for what belongs to none."""
        if self.served.resource.key == "namespaces":
            return _labels(document or old or {})
        if not self.namespace:
            return None
        stored = self.store.get("namespaces", "", self.namespace)
        return {} if stored is None else stored.labels

    def _request(
        self, matched: Matched, document: Document | None, old: Document | None
    ) -> Document:
        resource = self.served.resource
        own = Kind(resource.group, self.served.version, resource.kind)
        wanted = self.kind or msgspec.structs.replace(own, version=matched.version)
        name = self.name
        if not name and self.operation == "CREATE" and document is not None:
            name = (document.get("metadata") or {}).get("name", "")
        namespace = name if resource.key == "namespaces" else self.namespace
        request: Document = {
            "uid": str(uuid.uuid4()),
            "kind": wanted,
            "resource": _resource(resource.group, matched.version, resource.plural),
            "requestKind": self.kind or own,
            "requestResource": _resource(resource.group, self.served.version, resource.plural),
        }
        if self.subresource:
            request["subResource"] = request["requestSubResource"] = self.subresource
        if name:
            request["name"] = name
        if namespace:
            request["namespace"] = namespace
        request["operation"] = self.operation
        request["userInfo"] = _user_info(self.user)
        request["object"] = self._shown(document, matched.version)
        request["oldObject"] = self._shown(old, matched.version)
        request["dryRun"] = self.dry_run
        request["options"] = self.options
        return request

    def _shown(self, document: Any, version: str) -> Any:
        """An object under the version the webhook knows; there is no conversion but the name."""
        if document is None or self.kind is not None:
            return document
        group = self.served.resource.group
        return {**document, "apiVersion": f"{group}/{version}" if group else version}


def _all_hold(hook: Hook, request: Document) -> bool:
    """One that is false decides, also beside one that cannot be evaluated."""
    variables = {
        "object": request["object"],
        "oldObject": request["oldObject"],
        "request": msgspec.to_builtins(
            {key: value for key, value in request.items() if key not in {"object", "oldObject"}}
        ),
        "authorizer": None,
    }
    problem: ConditionError | None = None
    for condition in hook.conditions:
        try:
            if not holds(condition.expression, variables):
                return False
        except ConditionError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return True


def _resource(group: str, version: str, plural: str) -> Document:
    return {"group": group, "version": version, "resource": plural}


def _user_info(user: User) -> Document:
    info: Document = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    groups: Sequence[str] = user.groups
    if groups:
        info["groups"] = list(groups)
    return info


def _labels(document: Document) -> Labels:
    return (document.get("metadata") or {}).get("labels") or {}
