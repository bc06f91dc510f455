"""Bodies turned into documents: decoded, checked for type and identity, cleaned of nulls.

Whatever leaves this module has the right apiVersion and kind, metadata of the right types, and
for built-in kinds fields of the right types. The rest of the server relies on that.
"""

from functools import cache
from typing import Any, Final

import msgspec

from stromboli.sandbox import causes, metadata, statuses
from stromboli.sandbox.documents import Document, decode, decoding_problem, without_nulls
from stromboli.sandbox.errors import ApiRefusal
from stromboli.sandbox.requests import ApiRequest
from stromboli.sandbox.resources import Served
from stromboli.sandbox.strictness import check_known_fields
from stromboli.sandbox.yaml_bodies import document_in

__all__ = ["document_of", "patched", "shown_version", "typed", "wish_of"]

_ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata"})


def document_of(request: ApiRequest) -> Document:
    """The object in a create or update request."""
    served = request.served
    kind = served.resource.kind
    try:
        document: Any = decode(request.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise statuses.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get"
            f" version/kind; json parse error: {decoding_problem(error)}"
        ) from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise statuses.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get"
            f" version/kind; json parse error: not an object but {type(document).__name__}"
        )
    _check_identity(document, served)
    if request.params.strict:
        check_known_fields(document, served)
    if not served.resource.custom and b"null" in request.body:
        document = without_nulls(document)
    try:
        return typed(document, served)
    except msgspec.ValidationError as error:
        raise statuses.bad_request(
            f'{kind} in version "{served.version}" cannot be handled as a {kind}: {error}'
        ) from error


def wish_of(request: ApiRequest) -> Document:
    """The object in an apply request: what its manager wants, in YAML or JSON."""
    served, params = request.served, request.params
    if not params.field_manager:
        cause = causes.required("fieldManager", "is required for apply patch")
        raise statuses.invalid("meta.k8s.io", "PatchOptions", "", [cause])
    try:
        wish = document_in(request.body)
    except ApiRefusal as refusal:
        told = refusal.status.get("message", "")
        raise statuses.bad_request(f"error decoding YAML: {told}") from refusal
    if not isinstance(wish, dict):
        raise statuses.bad_request("error decoding YAML: the body is not an object")
    kind, version = wish.get("kind"), str(wish.get("apiVersion") or "")
    if kind != served.resource.kind or version != served.api_version:
        told = version if "/" in version else f"/{version}"
        raise statuses.bad_request(f"invalid object type: {told}, Kind={kind}")
    if isinstance(wish.get("metadata"), dict) and "managedFields" in wish["metadata"]:
        raise statuses.bad_request("metadata.managedFields must be nil")
    if params.strict:
        check_known_fields(wish, served)
    wish = without_nulls(wish)
    try:
        return typed(wish, served)
    except msgspec.ValidationError as error:
        raise statuses.bad_request(
            f'{kind} in version "{served.version}" cannot be handled as a {kind}: {error}'
        ) from error


def _check_identity(document: Document, served: Served) -> None:
    resource = served.resource
    given_version = document.get("apiVersion") or ""
    given_kind = document.get("kind") or ""
    if given_version == served.api_version and given_kind == resource.kind:
        return
    if resource.custom:
        if given_version != served.api_version:
            raise statuses.bad_request(
                f"the API version in the data ({given_version}) does not match the expected API"
                f" version ({served.api_version})"
            )
        cause = causes.invalid("kind", given_kind, f"must be {resource.kind}")
        name = _name_in(document)
        raise statuses.invalid(resource.group, str(given_kind), name, [cause])
    if given_version not in {"", served.api_version} or given_kind not in {"", resource.kind}:
        shown = given_kind or resource.kind
        version = str(given_version or served.version).rpartition("/")[2]
        raise statuses.bad_request(
            f'{shown} in version "{version}" cannot be handled as a {resource.kind}: it is not'
            f" {served.api_version} {resource.kind}"
        )
    document["apiVersion"] = served.api_version
    document["kind"] = resource.kind


def _name_in(document: Document) -> str:
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else ""
    return name if isinstance(name, str) else ""


def typed(document: Document, served: Served) -> Document:
    """The document with canonical metadata; msgspec.ValidationError if a type is wrong."""
    document["metadata"] = metadata.checked(document.get("metadata"))
    shape = served.behaviour.shape
    if shape is not None:
        known = _known_fields(shape)
        if not document.keys() <= known:
            document = {key: value for key, value in document.items() if key in known}
        msgspec.convert(document, shape)
    return document


@cache
def _known_fields(shape: type[msgspec.Struct]) -> frozenset[str]:
    """The top-level fields of a built-in kind; others are dropped, as a typed decoder would."""
    return _ENVELOPE | {field.encode_name for field in msgspec.structs.fields(shape)}


def patched(document: Document, served: Served) -> Document:
    """A patched object checked as kube does: identity and types are the patch's fault, 422."""
    resource = served.resource
    name = _name_in(document)
    for field, expected in (("kind", resource.kind), ("apiVersion", served.api_version)):
        if document.get(field) != expected:
            given = document.get(field)
            cause = causes.invalid(field, given, f"must be {expected}")
            kind = str(given) if field == "kind" else resource.kind
            raise statuses.invalid(resource.group, kind, name, [cause])
    if not resource.custom:
        document = without_nulls(document)
    try:
        return typed(document, served)
    except msgspec.ValidationError as error:
        raise _unfit(document, str(error)) from error


def _unfit(document: Document, problem: str) -> ApiRefusal:
    text = msgspec.json.encode(document).decode()
    return statuses.invalid("", "", "", [causes.invalid("patch", text, problem)])


def shown_version(body: bytes, served: Served) -> Document:
    """A stored object decoded for change, under the version the request came by."""
    document: Document = decode(body)
    document["apiVersion"] = served.api_version
    return document
