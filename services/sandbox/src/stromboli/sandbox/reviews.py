"""Questions posed as objects: who am I, may I, is this token good.

Nothing here is stored. There is no authorisation in the sandbox, so whoever is let in may do
everything, and the answers say so.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import Document, decode, encode
from stromboli.sandbox.requests import Answer, User

__all__ = ["REVIEWS", "ReviewKind", "review"]


class ReviewKind(msgspec.Struct, frozen=True):
    kind: str
    namespaced: bool
    answer: "Callable[[Document, User, Mapping[str, User]], Document]"


ReviewKey: TypeAlias = tuple[str, str, str]


def _allowed(_spec: Document, _user: User, _tokens: Mapping[str, User]) -> Document:
    return {"allowed": True, "reason": "the sandbox has no authorisation"}


def _everything(_spec: Document, _user: User, _tokens: Mapping[str, User]) -> Document:
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    return {"resourceRules": [rule], "nonResourceRules": [paths], "incomplete": False}


def _user_info(user: User) -> Document:
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups)}


def _myself(_spec: Document, user: User, _tokens: Mapping[str, User]) -> Document:
    return {"userInfo": _user_info(user)}


def _token_owner(spec: Document, _user: User, tokens: Mapping[str, User]) -> Document:
    owner = tokens.get(str(spec.get("token", "")))
    if owner is None:
        return {"authenticated": False, "user": {}, "error": "the token is not known"}
    return {"authenticated": True, "user": _user_info(owner)}


REVIEWS: Final[dict[ReviewKey, ReviewKind]] = {
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): ReviewKind(
        "SelfSubjectAccessReview", False, _allowed
    ),
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): ReviewKind(
        "SubjectAccessReview", False, _allowed
    ),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews"): ReviewKind(
        "LocalSubjectAccessReview", True, _allowed
    ),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"): ReviewKind(
        "SelfSubjectRulesReview", False, _everything
    ),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): ReviewKind(
        "SelfSubjectReview", False, _myself
    ),
    ("authentication.k8s.io", "v1", "tokenreviews"): ReviewKind("TokenReview", False, _token_owner),
}


def review(key: ReviewKey, body: bytes, user: User, tokens: Mapping[str, User]) -> Answer:
    kind = REVIEWS[key]
    try:
        document: Any = decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise statuses.bad_request(f"the {kind.kind} cannot be read: {error}") from error
    spec = document.get("spec") if isinstance(document, dict) else None
    status = kind.answer(spec if isinstance(spec, dict) else {}, user, tokens)
    answer = {
        "kind": kind.kind,
        "apiVersion": f"{key[0]}/{key[1]}",
        "metadata": {"creationTimestamp": None},
        "spec": spec or {},
        "status": status,
    }
    return Answer(201, encode(answer))
