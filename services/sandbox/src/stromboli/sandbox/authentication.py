"""Who is asking: a client certificate's name, or a bearer token's owner.

A bad token is refused even beside a good certificate, as in kube. There is no authorisation
after this: the user is noted in the audit log, and that is where a check would go.
"""

from collections.abc import Mapping
from typing import Any

from aiohttp.web import BaseRequest

from stromboli.sandbox import statuses
from stromboli.sandbox.requests import User

__all__ = ["authenticated"]


def authenticated(request: BaseRequest, tokens: Mapping[str, User]) -> User:
    """The user of a request, or the refusal of one without a good name."""
    header = request.headers.get("Authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        user = tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise statuses.unauthorized()
        return user
    user = _certified(request)
    if user is None:
        raise statuses.unauthorized()
    return user


def _certified(request: BaseRequest) -> User | None:
    """The user a verified client certificate names: CN is the user, each O a group."""
    transport = request.transport
    certificate: Any = None if transport is None else transport.get_extra_info("peercert")
    if not certificate:
        return None
    name = ""
    groups: list[str] = []
    for relative_name in certificate.get("subject", ()):
        for attribute, value in relative_name:
            if attribute == "commonName":
                name = value
            elif attribute == "organizationName":
                groups.append(value)
    return User(name, "", (*groups, "system:authenticated")) if name else None
